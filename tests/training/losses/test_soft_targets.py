"""Mixed and smoothed labels, alone and together with class weights and margins."""

import pytest
import torch
from catalogue import BASE, members, merged, options, small
from torch.nn.functional import cross_entropy, one_hot

from frostbench.heads.stepped.arcface import ArcFace
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.loss import LossSpec, branched_objective, objective
from frostbench.training.losses.scores import Branch
from frostbench.training.run import RunSpec

LABELS = torch.arange(5).repeat_interleave(torch.tensor([40, 20, 10, 1, 0]))
FIRST, SECOND = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([1, 1, 3, 0, 2, 0])
SHARE = torch.tensor([0.7, 0.4, 0.5, 0.9, 1.0, 0.0], dtype=torch.float64)
Z = 2 * torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
KNOWN = slice(0, 4)
POINTS = members(LossSpec.model_fields["point"].annotation)
WEIGHTS = members(LossSpec.model_fields["class_weight"].annotation)


def kind_of(spec_type):
    return spec_type.model_fields["kind"].default


def specs(spec_types):
    return [{"kind": kind_of(t)} | small(t) for t in spec_types]


def mixed(spec, z=Z, margin=None):
    statistics = class_statistics_of(LABELS, 5, spec.class_weight)
    return branched_objective(spec, z, (Branch(FIRST, SHARE), Branch(SECOND, 1 - SHARE)), statistics, 1.0, margin)


def each(spec, labels, z=Z):
    """Return the loss of each row alone, without class weights."""
    statistics = class_statistics_of(LABELS, 5, NoWeight())
    plain = spec.model_copy(update={"class_weight": NoWeight()})
    return torch.stack([objective(plain, z[i : i + 1], labels[i : i + 1], statistics, 1.0) for i in range(len(labels))])


def test_mixed_labels_are_torchs_cross_entropy_with_probabilities():
    probabilities = SHARE[:, None] * one_hot(FIRST, 5) + (1 - SHARE)[:, None] * one_hot(SECOND, 5)
    wanted = cross_entropy(Z[:, KNOWN], probabilities[:, KNOWN])
    assert mixed(LossSpec()).item() == pytest.approx(wanted.item(), abs=1e-12)


@pytest.mark.parametrize("weight", specs(WEIGHTS), ids=lambda w: w["kind"])
@pytest.mark.parametrize("point", specs(POINTS), ids=lambda p: p["kind"])
def test_each_branch_counts_by_its_share_and_the_weight_of_its_class(point, weight):
    spec = LossSpec.model_validate({"point": point, "class_weight": weight})
    of_class = spec.class_weight(torch.bincount(LABELS, minlength=5))
    shares = torch.cat([SHARE * of_class[FIRST], (1 - SHARE) * of_class[SECOND]])
    losses = torch.cat([each(spec, FIRST), each(spec, SECOND)])
    assert mixed(spec).item() == pytest.approx(((shares * losses).sum() / shares.sum()).item(), rel=1e-12)


@pytest.mark.parametrize("point", specs(POINTS), ids=lambda p: p["kind"])
def test_whole_shares_are_hard_labels(point):
    spec = LossSpec.model_validate({"point": point, "class_weight": {"kind": "inverse"}})
    statistics = class_statistics_of(LABELS, 5, spec.class_weight)
    one = torch.ones(6, dtype=torch.float64)
    found = branched_objective(spec, Z, (Branch(FIRST, one), Branch(SECOND, 0 * one)), statistics, 1.0)
    assert found.item() == pytest.approx(objective(spec, Z, FIRST, statistics, 1.0).item(), abs=1e-15)


@pytest.mark.parametrize("point", specs(POINTS), ids=lambda p: p["kind"])
def test_a_class_without_rows_adds_no_loss_and_gets_no_gradient(point):
    # dual_focal has no meaning for smoothed labels.
    epsilon = 0 if point["kind"] == "dual_focal" else 0.2
    spec = LossSpec.model_validate({"point": point, "smoothing": {"epsilon": epsilon}})
    z = Z.clone().requires_grad_()
    value = mixed(spec, z)
    value.backward()
    assert (z.grad[:, 4] == 0).all()
    assert z.grad[:, KNOWN].abs().min() > 0
    huge = Z.clone()
    huge[:, 4] = 1e6
    assert mixed(spec, huge).item() == value.item()


@pytest.mark.parametrize("spread", options(LabelSmoothing.model_fields["spread"].annotation))
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.9])
def test_smoothed_targets_sum_to_1_and_move_that_share(spread, epsilon):
    prior = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    targets = LabelSmoothing(epsilon=epsilon, spread=spread)(torch.tensor([0, 2]), prior).dense(
        torch.zeros(2, 3).double()
    )
    assert targets.sum(1).tolist() == pytest.approx([1, 1], abs=1e-15)
    where = prior if spread == "prior" else torch.full((3,), 1 / 3, dtype=torch.float64)
    own = torch.eye(3, dtype=torch.float64)[[0, 2]]
    wanted = (1 - epsilon) * own + epsilon * ((1 - own) / 2 if spread == "others" else where)
    assert targets.flatten().tolist() == pytest.approx(wanted.flatten().tolist(), abs=1e-15)


@pytest.mark.parametrize("spread", ["uniform", "prior"])
def test_smoothing_and_mixing_together_are_torchs_cross_entropy_with_probabilities(spread):
    spec = LossSpec.model_validate({"smoothing": {"epsilon": 0.2, "spread": spread}})
    hard = (SHARE[:, None] * one_hot(FIRST, 5) + (1 - SHARE)[:, None] * one_hot(SECOND, 5))[:, KNOWN]
    where = torch.tensor([40, 20, 10, 1]).double() / 71 if spread == "prior" else torch.full((4,), 0.25).double()
    wanted = cross_entropy(Z[:, KNOWN], 0.8 * hard + 0.2 * where)
    assert mixed(spec).item() == pytest.approx(wanted.item(), abs=1e-12)


def test_a_margin_is_on_one_class_at_a_time():
    """Cosines 0.8, 0.3, -0.2 under ArcFace with margin 0.5 and scale 30, labels 0 and 1 with shares 0.7 and 0.3."""
    cos = torch.tensor([[0.8, 0.3, -0.2]], dtype=torch.float64)
    counts = torch.tensor([4, 4, 4])
    statistics = class_statistics_of(torch.arange(3).repeat_interleave(counts), 3, NoWeight())
    head = ArcFace(margin=0.5, scale=30, warmup=0)

    def margin(logits, own):
        return head.margined(logits, own, counts, 30.0, 1.0)

    def value(*branches):
        parts = [Branch(torch.tensor([y]), torch.tensor([s], dtype=torch.float64)) for y, s in branches]
        return branched_objective(LossSpec(), 30 * cos, parts, statistics, 1.0, margin).item()

    assert value((0, 1.0)) == pytest.approx(0.03180079408182657, abs=1e-9)
    assert value((1, 1.0)) == pytest.approx(29.822041406036327, abs=1e-9)
    assert value((0, 0.7), (1, 0.3)) == pytest.approx(8.968872977668177, abs=1e-9)


def test_the_post_hoc_adjustment_takes_the_prior_off(long_tail):
    """Menon et al., ICLR 2021, eq. 9: tau times the log of the class shares is subtracted."""
    plain, moved = (
        next(e.head for e in fit([RunSpec.model_validate(merged(BASE, t))], long_tail) if isinstance(e, Finished))
        for t in ({}, {"posthoc": {"adjustment": {"tau": 0.5}}})
    )
    logits, log_share = plain.logits(long_tail.select.columns), (torch.tensor([120.0, 40, 15, 5]) / 180).log()
    assert torch.allclose(moved.logits(long_tail.select.columns), logits - 0.5 * log_share, atol=1e-5)
