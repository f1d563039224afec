"""Both conventions of label smoothing, smoothing with class weights, and smoothing to the prior."""

import math
from dataclasses import replace

import pytest
import torch
from four_rows import Y, Z
from torch.nn.functional import cross_entropy

from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.focal import Focal
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.loss import LossSpec, branched_objective, objective
from frostbench.training.losses.scores import Branch, Scores

FACTS = class_statistics_of(torch.arange(4).repeat_interleave(5), 4, NoWeight())


def smoothed(**options):
    return LossSpec(smoothing=LabelSmoothing(**options))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"epsilon": 0.05}, 1.5782124615254203),
        ({"epsilon": 0.1}, 1.6235249615254206),
        ({"epsilon": 0.1, "spread": "others"}, 1.6537332948587535),
    ],
)
def test_both_conventions_match_the_vectors(options, wanted):
    assert objective(smoothed(**options), Z, Y, FACTS, 1.0).item() == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7])
def test_moving_to_the_others_is_moving_evenly_by_more(epsilon):
    found = objective(smoothed(epsilon=epsilon, spread="others"), Z, Y, FACTS, 1.0).item()
    assert found == pytest.approx(cross_entropy(Z, Y, label_smoothing=epsilon * 4 / 3).item(), abs=1e-12)


def test_the_others_get_equal_shares_of_what_is_moved():
    smoothing = LabelSmoothing(epsilon=0.3, spread="others")
    targets = smoothing(torch.tensor([1]), torch.tensor([0.7, 0.2, 0.1, 0])).dense(torch.zeros(1, 4))
    assert targets[0].tolist() == pytest.approx([0.1, 0.7, 0.1, 0.1])
    half = LabelSmoothing(epsilon=0.9, spread="others")(torch.tensor([0]), torch.ones(2)).dense(torch.zeros(1, 2))
    assert half[0].tolist() == pytest.approx([0.1, 0.9])


@pytest.mark.parametrize("spread", ["uniform", "others", "prior"])
def test_one_class_keeps_all_of_its_target(spread):
    one = torch.ones(1, dtype=torch.float64)
    targets = LabelSmoothing(epsilon=0.5, spread=spread)(torch.tensor([0, 0]), one).dense(torch.zeros(2, 1).double())
    assert targets.tolist() == [[1], [1]]


def test_others_with_their_own_numbers_equal_a_loop():
    numbers, prior = torch.tensor([0.05, 0.1, 0.5], dtype=torch.float64), torch.full((4,), 0.25).double()
    base = LabelSmoothing(spread="others")
    found = torch.func.vmap(lambda e: base.model_copy(update={"epsilon": e})(Y, prior).dense(Z))(numbers)
    for k, number in enumerate(numbers.tolist()):
        wanted = LabelSmoothing(epsilon=number, spread="others")(Y, prior).dense(Z)
        assert torch.allclose(found[k], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("classes", "epsilon", "wanted"), [(200, 0.05, 8.2430), (100, 0.1, 6.8035), (10, 0.05, 5.2523)]
)
def test_the_optimum_has_the_gap_of_the_closed_form(classes, epsilon, wanted):
    assert math.log(classes * (1 - epsilon) / epsilon + 1) == pytest.approx(wanted, abs=1e-4)
    z = torch.zeros(1, classes, dtype=torch.float64)
    z[0, 0] = math.log(classes * (1 - epsilon) / epsilon + 1)
    z.requires_grad_()
    own, even = torch.tensor([0]), torch.full((classes,), 1 / classes, dtype=torch.float64)
    LabelSmoothing(epsilon=epsilon)(own, even).mean(z.log_softmax(-1)).sum().backward()
    assert z.grad.abs().max() < 1e-12
    assert z.softmax(-1)[0, 0].item() == pytest.approx(1 - epsilon + epsilon / classes, abs=1e-12)


def test_class_weights_multiply_the_smoothed_loss_of_a_sample():
    """torch's own call gives 1.2136628352 for hard targets and 1.3653706897 for the same ones as probabilities."""
    weight = torch.tensor([1, 2, 4, 0.5], dtype=torch.float64)
    found = objective(smoothed(epsilon=0.1), Z, Y, replace(FACTS, weight=weight), 1.0).item()
    assert found == pytest.approx(1.0399525400662843, abs=1e-12)
    plain = objective(LossSpec(), Z, Y, replace(FACTS, weight=weight), 1.0).item()
    assert plain == pytest.approx(0.9066192067329509, abs=1e-12)
    assert cross_entropy(Z, Y, weight=weight, label_smoothing=0.1).item() == pytest.approx(1.2136628352, abs=1e-9)


def test_beside_logit_adjustment_even_smoothing_lets_a_rare_class_win_and_the_prior_does_not():
    """At the optimum softmax(z + log prior) is the target, so plain scores are target over prior."""
    prior = torch.full((100,), (1 - 0.1 - 1e-4) / 98, dtype=torch.float64)
    prior[0], prior[99] = 0.1, 1e-4
    score = {
        spread: LabelSmoothing(epsilon=0.1, spread=spread)(torch.tensor([0]), prior).dense(prior[None])[0] / prior
        for spread in ("uniform", "others", "prior")
    }
    assert (score["uniform"][0].item(), score["uniform"][99].item()) == pytest.approx((9.01, 10.0), abs=1e-9)
    assert score["others"].argmax() == 99
    assert (score["prior"][0].item(), score["prior"][99].item()) == pytest.approx((9.1, 0.1), abs=1e-9)


@pytest.mark.parametrize(
    ("tree", "wanted"),
    [
        ({}, 0.7923495823898221),
        ({"smoothing": {"epsilon": 0.1}}, 0.9098495823898223),
        ({"point": {"kind": "focal", "gamma": 2}}, 0.41157428613008545),
    ],
)
def test_mixed_labels_match_the_vectors(tree, wanted):
    """The first row with the targets 0.7, 0.3, 0, 0."""
    share = torch.tensor([0.7], dtype=torch.float64)
    branches = (Branch(torch.tensor([0]), share), Branch(torch.tensor([1]), 1 - share))
    found = branched_objective(LossSpec.model_validate(tree), Z[:1], branches, FACTS, 1.0)
    assert found.item() == pytest.approx(wanted, abs=1e-12)


def test_focal_loss_of_mixed_labels_is_that_of_the_shared_target():
    log_p, share = Z[:1].log_softmax(-1), torch.tensor([[0.7, 0.3, 0, 0]], dtype=torch.float64)
    wanted = -(share * (1 - log_p.exp()) ** 2 * log_p).sum().item()
    two = [Focal()(Scores(Z[:1], Z[:1], log_p), LabelSmoothing()(torch.tensor([k]), share[0])) for k in (0, 1)]
    assert (0.7 * two[0] + 0.3 * two[1]).item() == pytest.approx(wanted, abs=1e-12)
