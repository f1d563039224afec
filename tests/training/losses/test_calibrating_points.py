"""Losses per sample for calibration: values, gradients and closed forms."""

import math

import pytest
import torch
from four_rows import Y, Z, each, slope
from torch.nn.functional import one_hot

from frostbench.training.losses.acls import Acls
from frostbench.training.losses.brier import Brier
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.cpc import Cpc, discrimination, exclusion
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.entropy import Ecp, entropy_of
from frostbench.training.losses.focal import DualFocal, Flsd53, Focal
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.loss import LossSpec, scores
from frostbench.training.losses.mbls import Mbls, active_share, margin_penalty
from frostbench.training.losses.scores import Targets


@pytest.mark.parametrize(
    ("point", "wanted"),
    [
        (Mbls(margin=2), 1.6110249615254204),
        (Mbls(margin=2, reduction="sum"), 1.8453999615254204),
        (Mbls(margin=3), 1.5735249615254203),
        (Mbls(margin=3, reduction="sum"), 1.6953999615254205),
        (Mbls(margin=6), 1.5391499615254205),
        (Mbls(margin=6, reduction="sum"), 1.5578999615254203),
        (Mbls(), 1.5328999615254204),
        (Acls(margin=2), 1.6906082948587537),
        (Ecp(), 1.4612189665149713),
        (Ecp(reduction="mean"), 1.5149797127728082),
        (Cpc(), 2.330024890379459),
        (Cpc(discrimination=1, exclusion=0), 1.5328999615254204 + 0.9391356266849528),
        (Brier(), 0.5175869598453262),
        (Focal(gamma=1), 1.3684200492305816),
        (Focal(gamma=2), 1.3096554820247377),
        (Focal(gamma=3), 1.2837203559817223),
        (Flsd53(), 1.2693783462509358),
        (DualFocal(gamma=0), 1.5328999615254204),
        (DualFocal(gamma=1), 1.4064895577268004),
        (DualFocal(), 1.268937609514266),
    ],
    ids=repr,
)
def test_means_over_the_rows_match_the_vectors(point, wanted):
    assert each(point).mean().item() == pytest.approx(wanted, abs=1e-10)


def test_parts_match_the_vectors():
    penalty = Acls(margin=2, positive=1, negative=0).penalty(Z), Acls(margin=2, positive=0, negative=1).penalty(Z)
    assert [part.mean().item() for part in penalty] == pytest.approx([1.25, 3.2708333333333335], abs=1e-12)
    assert margin_penalty(Z, 2.0, "mean").tolist() == pytest.approx([0.25, 0, 1, 1.875], abs=1e-12)
    entropies = [0.878281175269, 1.113100250801, 0.556198826194, 0.319659548155]
    assert entropy_of(Z).tolist() == pytest.approx(entropies, abs=1e-12)
    assert exclusion(Z, Y).mean().item() == pytest.approx(0.7032113661855431, abs=1e-12)
    assert each(Brier()).tolist() == pytest.approx(
        [0.119632183954, 0.234885588453, 1.707325942334, 0.008504124640], abs=1e-11
    )


def test_the_slope_of_the_margin_penalty_is_that_of_the_table_and_acts_on_the_largest_logit_too():
    found = slope(lambda z: margin_penalty(z, 2.0, "mean").mean())
    wanted = [
        [0.0625, 0, -0.0625, 0],
        [0, 0, 0, 0],
        [0, -0.0625, 0.125, -0.0625],
        [0.1875, -0.0625, -0.0625, -0.0625],
    ]
    assert torch.allclose(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)
    # Rows 0 and 3 are predicted rightly: their true class is pulled down.
    assert found[0, 0] > 0
    assert found[3, 0] > 0


def test_the_slope_of_acls_is_that_of_the_table():
    wanted = [
        [0, 0, -1 / 60, 0],
        [0, 0, 0, 0],
        [0, -1 / 60, 0.5, -0.05],
        [1, -1 / 12, -0.025, -1 / 60],
    ]
    found = slope(lambda z: Acls(margin=2).penalty(z).mean())
    assert torch.allclose(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("point", [Mbls(margin=1.9), Acls(margin=1.9, negative=0), Ecp(), Cpc(), Brier(), Flsd53()])
def test_slopes_are_those_of_finite_differences(point):
    """Margins avoid the kinks at 2; acls is tested without its second penalty, which detaches the largest logit."""
    for smoothing in (LabelSmoothing(), LabelSmoothing(epsilon=0.2)):
        assert torch.autograd.gradcheck(lambda z, s=smoothing: each(point, z, smoothing=s), Z.clone().requires_grad_())


@pytest.mark.parametrize("gamma", [0.5, 1.0, 5.0])
def test_the_slope_of_dual_focal_goes_through_the_class_below(gamma):
    assert torch.autograd.gradcheck(lambda z: each(DualFocal(gamma=gamma), z), Z.clone().requires_grad_())
    log_p = Z.log_softmax(-1)
    below = torch.tensor([0.158444709515, 0.176233710280, 0, 0.046060909648], dtype=torch.float64)
    own = log_p[torch.arange(4), Y]
    detached = ((1 - own.exp() + below) ** gamma * -own).mean()
    assert each(DualFocal(gamma=gamma)).mean().item() == pytest.approx(detached.item(), abs=1e-11)


def test_margins_that_bind_nowhere_leave_cross_entropy():
    plain = each(CrossEntropy())
    assert torch.equal(each(Mbls(margin=8)), plain)
    assert torch.equal(each(Acls(margin=8)), plain)
    assert active_share(Z, 2.0).tolist() == [0.25, 0, 0.5, 0.75]
    assert active_share(Z, 8.0).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("classes", "margin", "wanted"),
    [(10, 6, 0.978178), (100, 6, 0.802957), (200, 10, 0.991046), (200, 6, 0.669671), (1000, 10, 0.956613)],
)
def test_the_largest_probability_within_a_margin_is_that_of_the_closed_form(classes, margin, wanted):
    z = torch.zeros(1, classes, dtype=torch.float64)
    z[0, 0] = margin
    assert z.softmax(-1)[0, 0].item() == pytest.approx(wanted, abs=1e-6)
    assert margin_penalty(z, margin, "sum").item() == 0
    z[0, 0] += 0.1
    assert margin_penalty(z, margin, "sum").item() == pytest.approx(0.1 * (classes - 1), abs=1e-9)
    assert math.log((classes - 1) * wanted / (1 - wanted)) == pytest.approx(margin, abs=1e-3)


def test_mbls_and_acls_measure_plain_logits_where_a_prior_is_added():
    statistics = class_statistics_of(torch.arange(4).repeat_interleave(torch.tensor([90, 60, 10, 1])), 4, NoWeight())
    spec = LossSpec.model_validate({"logit_adjustment": {"tau": 1}})
    stages = scores(spec, Z, Z, statistics)
    plain = CrossEntropy()(stages, Targets(Y))
    for point, penalty in (
        (Mbls(margin=2), 0.1 * margin_penalty(Z, 2.0, "mean")),
        (Acls(margin=2), 0.1 * Acls(margin=2).penalty(Z)),
        (Ecp(), -0.1 * entropy_of(Z)),
        (Cpc(discrimination=0), exclusion(Z, Y)),
        (Cpc(exclusion=0), 0.1 * discrimination(stages.adjusted, Y)),
    ):
        assert torch.allclose(point(stages, Targets(Y)), plain + penalty, rtol=0, atol=1e-12)


def test_penalties_that_read_no_label_are_the_same_for_smoothed_ones():
    smoothing = LabelSmoothing(epsilon=0.1)
    plain = each(CrossEntropy(), smoothing=smoothing)
    assert plain.mean().item() == pytest.approx(1.6235249615254206, abs=1e-12)
    for point in (Mbls(margin=2), Acls(margin=2), Ecp(), Cpc()):
        moved = each(point, smoothing=smoothing) - plain
        assert torch.allclose(moved, each(point) - each(CrossEntropy()), rtol=0, atol=1e-12)


def test_brier_of_smoothed_labels_is_the_distance_to_them():
    for smoothing in (LabelSmoothing(epsilon=0.2), LabelSmoothing(epsilon=0.2, spread="others")):
        share = 0.2 if smoothing.spread == "uniform" else 0.2 * 4 / 3
        wanted = (1 - share) * one_hot(Y, 4).double() + share / 4
        found = each(Brier(), smoothing=smoothing)
        assert torch.allclose(found, ((Z.softmax(-1) - wanted) ** 2).sum(-1), rtol=0, atol=1e-12)


def test_flsd53_of_smoothed_labels_is_the_mean_of_those_of_all_labels():
    every = torch.stack([each(Flsd53(), labels=torch.full((4,), k)) for k in range(4)], -1)
    wanted = 0.8 * every.gather(-1, Y[:, None]).squeeze(-1) + 0.2 * every.mean(-1)
    assert torch.allclose(each(Flsd53(), smoothing=LabelSmoothing(epsilon=0.2)), wanted, rtol=0, atol=1e-12)


def test_dual_focal_refuses_smoothed_labels():
    with pytest.raises(ValueError, match="needs hard labels, got smoothed ones"):
        each(DualFocal(), smoothing=LabelSmoothing(epsilon=0.1))


def test_cpc_needs_three_classes():
    with pytest.raises(ValueError, match="needs at least three classes with training rows, got 2"):
        each(Cpc(), Z[:, :2], torch.tensor([0, 1, 1, 0]))
