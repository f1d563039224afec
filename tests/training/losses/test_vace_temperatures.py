"""VACE: scatter, and the temperatures that follow from it."""

import math

import pytest
import torch
from catalogue import data
from torch.nn.functional import normalize
from vace_runs import finished, run_of

from frostbench.training.losses.vace import Vace, batch_scatter, scatter_of

X = torch.tensor([[1.0, 2], [3, 2], [0, 0], [0, 4], [2, 2], [5, 5]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1, 1, 1, 2])
COUNTS = torch.tensor([2, 3, 1])


def scatter(x=X):
    return scatter_of(lambda: [x], LABELS, 3)


def test_scatter_is_the_unbiased_variance_and_unknown_for_one_row():
    assert scatter().tolist()[:2] == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert math.isnan(scatter()[2])
    assert scatter_of(lambda: [X[:3], X[3:]], LABELS, 3)[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)


@pytest.mark.parametrize(
    ("strength", "center", "wanted"),
    [
        (0.5, False, [1.2727272727, 1.7272727273, 1.5]),
        (0.5, True, [0.7727272727, 1.2272727273, 1.0]),
        (1.0, False, [1.5454545455, 2.0, 2.0]),
        (1.0, True, [0.5454545455, 1.4545454545, 1.0]),
    ],
)
def test_temperatures_of_the_worked_example(strength, center, wanted):
    found = Vace(strength=strength, center=center).temperatures(scatter(), COUNTS)
    assert found.tolist() == pytest.approx(wanted, abs=1e-10)


def test_the_plain_slope_is_b_itself():
    found = Vace(strength=0.5, slope="plain", base=0.4).temperatures(scatter(), COUNTS)
    assert found.tolist() == pytest.approx([0.9, 0.4 + 4 / 3, 0.4 + 11 / 12], abs=1e-12)
    assert Vace(strength=0.1, slope="plain", base=0.3).temperatures(scatter(), COUNTS)[0] == 0.5


def test_shrinkage_draws_small_classes_to_the_mean():
    mean, found = 11 / 6, Vace(strength=1, slope="plain", base=0.01, highest=99, lowest=0.001, shrinkage=5)
    wanted = [(2 * 1 + 5 * mean) / 7, (3 * 8 / 3 + 5 * mean) / 8, mean]
    assert (found.temperatures(scatter(), COUNTS) - 0.01).tolist() == pytest.approx(wanted, abs=1e-12)


def test_without_known_scatter_every_temperature_is_the_base():
    unknown = torch.full((3,), torch.nan, dtype=torch.float64)
    assert Vace(strength=0.5, base=1.25).temperatures(unknown, COUNTS).tolist() == [1.25] * 3
    flat = torch.zeros(3, dtype=torch.float64)
    assert Vace(strength=0.5).temperatures(flat, COUNTS).tolist() == [1.0] * 3


def test_bounds_lie_on_both_sides_of_one():
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Vace(lowest=1.5)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Vace(highest=0.9)


def test_the_scale_of_the_vectors_is_irrelevant_and_that_of_one_channel_is_not():
    spec = Vace(strength=0.5)
    plain = spec.temperatures(scatter(), COUNTS)
    assert torch.allclose(spec.temperatures(scatter(X * 37), COUNTS), plain, rtol=1e-12)
    assert not torch.allclose(spec.temperatures(scatter(X * torch.tensor([37.0, 1])), COUNTS), plain, rtol=1e-2)


def test_of_unit_vectors_scatter_follows_from_the_length_of_the_mean():
    x = normalize(torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    found = scatter_of(lambda: [x], torch.zeros(50, dtype=torch.long), 1)[0] * 49 / 50
    assert float(found) == pytest.approx(float(1 - x.mean(0).square().sum()) / 8, abs=1e-12)


def test_a_running_scatter_skips_single_rows_and_starts_at_the_first_batch():
    spec, counts = Vace(rate=0.2), torch.tensor([4.0, 1, 9, 5])
    before = torch.tensor([1.0, 1.2, 1.2, torch.nan], dtype=torch.float64)
    batch = torch.tensor([2.0, 77.0, 0.5, 3.0], dtype=torch.float64)
    assert spec.updated(before, batch, counts).tolist() == pytest.approx([1.2, 1.2, 1.06, 3.0], abs=1e-12)


def test_scatter_of_a_batch_is_that_of_all_rows_where_it_holds_them():
    found, counts = batch_scatter(X, LABELS, 3, torch.arange(6))
    assert found[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert counts.tolist() == [2, 3, 1]


def test_a_row_that_is_drawn_twice_counts_once_in_a_running_scatter():
    index = torch.tensor([0, 1, 2, 3, 4, 5, 5, 2, 5, 0])
    found, counts = batch_scatter(X[index], LABELS[index], 3, index)
    assert found[:2].tolist() == pytest.approx([1.0, 8 / 3], abs=1e-12)
    assert counts.tolist() == [2, 3, 1]
    # One class has a single row, which a sampler that draws classes alike shows several times in each batch.
    run = run_of(
        train__loss__vace={"strength": 0.5, "scatter": "input_ema", "center": True},
        train__sampler__draw="class_balanced",
        head__classifier__kind="cosine",
    )
    assert finished(run, data(torch.float32)).head.head.tau[3] == 1
