"""Edge cases of the losses for calibration: many classes, ties, one class, huge logits, and stacked heads."""

import math

import pytest
import torch
from four_rows import POINTS, Y, Z, each, slope
from torch.nn.functional import one_hot, softplus

from frostbench.training.losses.acls import Acls
from frostbench.training.losses.brier import Brier
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.cpc import CLASSES_AT_ONCE, Cpc, exclusion
from frostbench.training.losses.entropy import Ecp
from frostbench.training.losses.focal import DualFocal, Flsd53
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.loss import LossSpec, objective
from frostbench.training.losses.mbls import Mbls


@pytest.mark.parametrize("classes", [3, CLASSES_AT_ONCE, 2 * CLASSES_AT_ONCE + 5])
def test_exclusion_in_pieces_is_the_sum_over_all_pairs(classes):
    generator = torch.Generator().manual_seed(classes)
    z = 3 * torch.randn(6, classes, dtype=torch.float64, generator=generator)
    own = torch.randint(classes, (6,), generator=generator)

    def by_pairs(logits):
        others = one_hot(own, classes) == 0
        pairs = (others[:, :, None] & others[:, None, :]).double()
        of_all = softplus(-(logits[:, :, None] - logits[:, None, :]))
        return (pairs * of_all).sum((1, 2)) / (2 * (classes - 1) * (classes - 2))

    assert torch.allclose(exclusion(z, own), by_pairs(z), rtol=1e-12, atol=1e-12)
    found, wanted = (slope(lambda v, f=f: f(v).sum(), z) for f in (lambda v: exclusion(v, own), by_pairs))
    assert torch.allclose(found, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", POINTS)
def test_adding_a_number_to_all_logits_changes_nothing_but_acls(name):
    moved = each(POINTS[name], Z + 1.5)
    assert torch.allclose(moved, each(POINTS[name]), rtol=0, atol=1e-12) == (name != "acls")


def test_all_logits_alike():
    zero, log4 = torch.zeros(4, 4, dtype=torch.float64), math.log(4)
    wanted = {
        "mbls": log4,
        "acls": log4,
        "ecp": 0.9 * log4,
        "cpc": log4 + 0.1 * math.log(2) + 9 / 12 * math.log(2),
        "brier": 0.75,
        "flsd53": 0.75**3 * log4,
        # No class is below another.
        "dual_focal": 0.75**5 * log4,
    }
    for name, value in wanted.items():
        assert each(POINTS[name], zero).tolist() == pytest.approx([value] * 4, abs=1e-12), name
        assert slope(lambda z, p=POINTS[name]: each(p, z).sum(), zero).isfinite().all()


def test_logits_that_tie_for_the_largest_count_once_in_acls():
    z = torch.tensor([[3, 3, 0.0]], dtype=torch.float64)
    assert Acls(margin=2, negative=0).penalty(z).item() == 1
    assert slope(lambda v: Acls(margin=2, negative=0).penalty(v).sum(), z).tolist() == [[1, 1, 0]]


@pytest.mark.parametrize("name", [name for name in POINTS if name != "cpc"])
def test_one_class_has_no_slope(name):
    """For acls this holds for logits within its margin."""
    z = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    value = each(POINTS[name], z, torch.tensor([0, 0]))
    assert value.tolist() == [0, 0]
    assert slope(lambda v: each(POINTS[name], v, torch.tensor([0, 0])).sum(), z).tolist() == [[0], [0]]


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("logits", [[1e4, 0, 0], [-1e4, 0, 0], [200, -200, 0], [40, 0, 0], [0, 0, 0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_slopes_stay_finite(name, logits, dtype):
    z = torch.tensor([logits], dtype=dtype)
    value = each(POINTS[name], z, torch.tensor([0]))
    assert value.isfinite().all()
    assert value.dtype == dtype
    assert slope(lambda v: each(POINTS[name], v, torch.tensor([0])).sum(), z).isfinite().all()


SWEPT_PAIRS = [
    (Mbls(), "margin", (1.0, 2.0, 50.0)),
    (Mbls(margin=1, reduction="sum"), "strength", (0.05, 0.1, 2.0)),
    (Acls(), "margin", (0.5, 2.0, 3.0)),
    (Acls(margin=1), "negative", (0.05, 0.1, 2.0)),
    (Acls(margin=1), "positive", (0.05, 0.1, 2.0)),
    (Ecp(reduction="mean"), "strength", (0.05, 0.1, 2.0)),
    (Cpc(), "discrimination", (0.05, 0.1, 2.0)),
    (Cpc(), "exclusion", (0.05, 0.1, 2.0)),
    (DualFocal(), "gamma", (0.5, 1.0, 5.0)),
]


@pytest.mark.parametrize(("point", "option", "numbers"), SWEPT_PAIRS)
def test_heads_with_their_own_numbers_equal_a_loop(point, option, numbers):
    z = torch.stack([Z, Z.flip(0), 2 * Z])

    def one(logits, number):
        return each(point.model_copy(update={option: number}), logits).mean()

    slopes, values = torch.func.vmap(torch.func.grad_and_value(one))(z, torch.tensor(numbers, dtype=torch.float64))
    for k, number in enumerate(numbers):
        wanted, value = torch.func.grad_and_value(one)(z[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(slopes[k], wanted, rtol=0, atol=1e-12)
    assert len(set(values.tolist())) == 3


@pytest.mark.parametrize("point", [Brier(), Flsd53()])
def test_heads_with_their_own_smoothing_equal_a_loop(point):
    numbers = torch.tensor([0.05, 0.2, 0.5], dtype=torch.float64)
    found = torch.func.vmap(
        lambda epsilon: each(point, smoothing=LabelSmoothing().model_copy(update={"epsilon": epsilon}))
    )
    for k, number in enumerate(numbers.tolist()):
        wanted = each(point, smoothing=LabelSmoothing(epsilon=number))
        assert torch.allclose(found(numbers)[k], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", POINTS)
def test_the_objective_of_batch_rows_is_the_mean_of_the_point_loss(name):
    statistics = class_statistics_of(torch.arange(4).repeat_interleave(5), 4, NoWeight())
    found = objective(LossSpec(point=POINTS[name]), Z, Y, statistics, 1.0)
    assert found.item() == pytest.approx(each(POINTS[name]).mean().item(), abs=1e-12)
