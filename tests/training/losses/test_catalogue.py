import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import EffectiveWeight, InverseWeight, NoWeight
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.losses.loss import LossSpec, objective, scores

COUNTS = torch.tensor([900, 90, 10])
LABELS = torch.arange(3).repeat_interleave(COUNTS)
Z = torch.tensor([[1.0, 0.5, -0.2]], dtype=torch.float64)


def loss_of(tree, label, logits=Z, labels=LABELS, classes=3):
    spec = LossSpec.model_validate(tree)
    statistics = class_statistics_of(labels, classes, spec.class_weight)
    return objective(spec, logits, torch.tensor([label]), statistics, 1.0).item()


@pytest.mark.parametrize(
    ("tree", "label", "wanted"),
    [
        ({}, 2, 1.8459113654),
        ({"logit_adjustment": {"tau": 1}}, 2, 5.7618447495),
        ({"logit_adjustment": {"tau": 0.5}}, 2, 3.6516617076),
        ({"logit_adjustment": {"tau": 1}}, 0, 0.0620350792),
        ({"smoothing": {"epsilon": 0.1}}, 2, 1.7825780320),
    ],
)
def test_losses_of_one_sample_match_the_vectors(tree, label, wanted):
    assert loss_of(tree, label) == pytest.approx(wanted, abs=1e-9)


def test_logit_adjustment_adds_the_prior_and_never_subtracts_it():
    subtracted = 0.2316199163
    assert loss_of({"logit_adjustment": {"tau": 1}}, 2) != pytest.approx(subtracted, abs=1e-3)


def test_the_gradient_of_logit_adjustment_matches_the_vector():
    z = Z.clone().requires_grad_()
    spec = LossSpec.model_validate({"logit_adjustment": {"tau": 1}})
    objective(spec, z, torch.tensor([2]), class_statistics_of(LABELS, 3, NoWeight()), 0.0).backward()
    assert z.grad[0].tolist() == pytest.approx([0.939849917, 0.057004779, -0.9968546961], abs=1e-9)


def test_logit_adjustment_with_the_effective_prior_beside_weights():
    tree = {"logit_adjustment": {"tau": 1}, "class_weight": {"kind": "effective", "beta": 0.999}}
    weight = EffectiveWeight(beta=0.999)(COUNTS)[2].item()
    assert weight * loss_of(tree, 2) == pytest.approx(5.5440567472, abs=1e-9)


def test_inverse_weights_make_adjustment_by_the_effective_prior_a_no_op():
    inverse = {"class_weight": {"kind": "inverse"}}
    assert loss_of(inverse | {"logit_adjustment": {"tau": 1}}, 2) == pytest.approx(loss_of(inverse, 2), abs=1e-12)


def test_weights_stand_outside_the_smoothed_loss():
    """torch's own call gives 4.5769829723 for this sample; ours is weight times smoothed loss."""
    weight = EffectiveWeight(beta=0.999)(COUNTS)
    smoothed = loss_of({"smoothing": {"epsilon": 0.1}}, 2)
    assert weight[2].item() * smoothed == pytest.approx(4.7225624433, abs=1e-9)
    theirs = cross_entropy(Z, torch.tensor([2]), weight=weight, label_smoothing=0.1, reduction="none").item()
    assert theirs == pytest.approx(4.5769829723, abs=1e-9)


def test_the_mean_divides_by_the_weights_that_took_part():
    logits = torch.tensor([[1, 0.5, -0.2], [0.1, 0.3, 0.9]], dtype=torch.float64)
    labels = torch.tensor([0, 2])
    rows = torch.tensor([0] * 4 + [1] * 2 + [2])
    spec = LossSpec(class_weight=InverseWeight())
    statistics = class_statistics_of(rows, 3, spec.class_weight)
    ours = objective(spec, logits, labels, statistics, 0.0).item()
    theirs = cross_entropy(logits, labels, weight=InverseWeight()(torch.bincount(rows))).item()
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_without_weights_smoothing_equals_torch():
    logits = torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(50) % 7
    spec = LossSpec.model_validate({"smoothing": {"epsilon": 0.2}})
    ours = objective(spec, logits, labels, class_statistics_of(labels, 7, NoWeight()), 0.0)
    assert ours.item() == pytest.approx(cross_entropy(logits, labels, label_smoothing=0.2).item(), abs=1e-12)


def test_a_clean_sample_of_a_frequent_class_keeps_its_class_at_the_optimum():
    """With torch's call the optimum of this head sample is a tail class: weight ratio 197 against a limit of 91."""
    counts = torch.tensor([5000] + [20] * 9)
    labels = torch.arange(10).repeat_interleave(counts)
    spec = LossSpec.model_validate({"smoothing": {"epsilon": 0.1}, "class_weight": {"kind": "effective"}})
    statistics = class_statistics_of(labels, 10, spec.class_weight)
    z = torch.zeros(1, 10, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([z], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = objective(spec, z, torch.tensor([0]), statistics, 0.0)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert z.detach().softmax(1)[0, 0].item() == pytest.approx(0.91, abs=1e-4)


@pytest.mark.parametrize("spread", ["uniform", "prior"])
def test_heads_with_their_own_numbers_smooth_and_adjust_as_a_loop(spread):
    numbers, labels = torch.tensor([0.0, 0.1, 0.5], dtype=torch.float64), torch.tensor([0, 2, 1, 1])
    priors = torch.rand(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(1)
    smoothing, adjustment = LabelSmoothing(spread=spread), LogitAdjustment()

    def one(number, prior):
        targets = smoothing.model_copy(update={"epsilon": number})(labels, prior).dense(prior[None])
        return targets, adjustment.model_copy(update={"tau": number})(targets, prior.log())

    found = torch.func.vmap(one)(numbers, priors)
    for k, number in enumerate(numbers.tolist()):
        for lifted, plain in zip(found, one(number, priors[k]), strict=True):
            assert torch.allclose(lifted[k], plain, rtol=0, atol=1e-12)


def test_smoothing_by_the_prior_puts_the_share_where_the_prior_is():
    prior = torch.tensor([0.7, 0.2, 0.1])
    targets = LabelSmoothing(epsilon=0.1, spread="prior")(torch.tensor([1]), prior).dense(prior[None])
    assert targets[0].tolist() == pytest.approx([0.07, 0.92, 0.01])


@pytest.mark.parametrize(
    "tree",
    [
        {"smoothing": {"epsilon": 0, "spread": "prior"}},
        {"logit_adjustment": {"tau": 0, "prior": "raw"}},
        {"hardmine": {"keep": 1, "quota": 9, "noise_guard": True}},
        {"class_weight": {"kind": "effective", "beta": 0}},
    ],
)
def test_every_op_has_a_neutral_value(tree):
    logits = torch.randn(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(30) % 3
    spec = LossSpec.model_validate(tree)
    found = objective(spec, logits, labels, class_statistics_of(LABELS, 3, spec.class_weight), 1.0)
    assert found.item() == pytest.approx(cross_entropy(logits, labels).item(), abs=1e-12)


def test_absent_classes_are_cut_out_of_the_loss_and_of_the_smoothing():
    labels = torch.tensor([0, 0, 2])
    logits = torch.tensor([[1.0, 50.0, -0.2]], dtype=torch.float64)
    found = loss_of({"smoothing": {"epsilon": 0.1}}, 2, logits, labels)
    wanted = cross_entropy(logits[:, [0, 2]], torch.tensor([1]), label_smoothing=0.1).item()
    assert found == pytest.approx(wanted, abs=1e-12)


def test_stages_stay_readable():
    spec = LossSpec.model_validate({"logit_adjustment": {"tau": 1}})
    stages = scores(spec, Z, Z, class_statistics_of(LABELS, 3, NoWeight()))
    assert torch.equal(stages.raw, Z)
    assert (stages.adjusted - stages.raw)[0].tolist() == pytest.approx([math.log(p) for p in (0.9, 0.09, 0.01)])


class TestHardMine:
    LOSS = torch.tensor([0.1, 2, 0.5, 1.5, 0.05, 0.7])

    def test_the_mean_over_the_kept_half_matches_the_vector(self):
        kept = HardMine(keep=0.5, warm=0, quota=0)(self.LOSS, torch.zeros(6, dtype=torch.long), 1.0)
        assert (kept * self.LOSS).sum().item() / kept.sum().item() == pytest.approx(1.4)

    def test_easy_samples_of_a_class_are_kept_up_to_its_quota(self):
        labels = torch.tensor([1, 0, 0, 0, 1, 0])
        kept = HardMine(keep=0.5, warm=0, quota=1)(self.LOSS, labels, 1.0)
        assert kept.tolist() == [1, 1, 0, 1, 0, 1]

    def test_everything_is_kept_while_warm(self):
        kept = HardMine(keep=0.5, warm=0.3, quota=0)(self.LOSS, torch.zeros(6, dtype=torch.long), 0.3)
        assert kept.sum() == 6

    def test_the_noise_guard_leaves_out_the_hardest_percent(self):
        loss = torch.arange(200.0)
        kept = HardMine(keep=0.5, warm=0, quota=0, noise_guard=True)(loss, torch.zeros(200, dtype=torch.long), 1.0)
        assert kept.nonzero().squeeze(1).tolist() == list(range(98, 198))

    @pytest.mark.parametrize(("keep", "quota", "guard"), [(0.5, 0, False), (0.3, 2, True), (0.25, 40, True)])
    def test_the_rows_kept_are_those_of_a_count_by_hand_in_a_stack_too(self, keep, quota, guard):
        generator = torch.Generator().manual_seed(0)
        loss, labels = torch.rand(3, 120, generator=generator), torch.randint(9, (120,), generator=generator)
        mining = HardMine(keep=keep, warm=0, quota=quota, noise_guard=guard)
        found = torch.func.vmap(lambda each: mining(each, labels, 1.0))(loss)
        for k in range(3):
            order = sorted(range(120), key=lambda i: -loss[k][i].item())[2 if guard else 0 :]
            wanted, seen = set(order[: math.ceil(keep * 120)]), [0] * 9
            for i in order:
                if seen[labels[i]] < quota:
                    wanted.add(i)
                seen[labels[i]] += 1
            assert set(found[k].nonzero().squeeze(1).tolist()) == wanted
            assert torch.equal(found[k], mining(loss[k], labels, 1.0))

    def test_the_ranking_ignores_weights_and_smoothing(self):
        logits = torch.tensor([[2.0, 0], [0.1, 0], [0, 0.2], [0, 3]], dtype=torch.float64)
        labels = torch.tensor([0, 0, 1, 1])
        spec = LossSpec.model_validate(
            {"hardmine": {"keep": 0.5, "warm": 0, "quota": 0}, "class_weight": {"kind": "inverse"}}
        )
        statistics = class_statistics_of(torch.tensor([0] * 9 + [1]), 2, spec.class_weight)
        plain = cross_entropy(logits, labels, reduction="none")
        weight = torch.tensor([0.2, 0.2, 1.8, 1.8], dtype=torch.float64)
        chosen = torch.tensor([False, True, True, False])
        wanted = (weight * plain)[chosen].sum() / weight[chosen].sum()
        assert objective(spec, logits, labels, statistics, 1.0).item() == pytest.approx(wanted.item(), abs=1e-12)


def test_a_batch_of_one_row_keeps_it_whatever_the_guard_leaves_out():
    guard = HardMine(keep=0.5, noise_guard=True)
    assert guard(torch.tensor([3.0]), torch.tensor([0]), 1.0).tolist() == [1]
    assert guard(torch.tensor([3.0, 1]), torch.tensor([0, 0]), 1.0).tolist() == [0, 1]
