"""The scale of vectors has no effect: every option gives the same head for vectors times any factor."""

from dataclasses import replace

import pytest
import torch
from catalogue import BASE, CASES, DIM, MLP, data, merged, small, trained
from conformance import ROWS, of, with_features
from crossval_runs import run as crossval_run

from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.preprocess import Standardise, length_in_units
from frostbench.training.crossval.crossval import cross_validate
from frostbench.training.data.part import Data, Part
from frostbench.training.data.train_rows import train_rows
from frostbench.training.run import RunSpec

FACTORS = (1e-4, 1e4)
EXACT = (2.0**-13, 2.0**13)
"""Powers of two change no digit of a vector."""


def predicted(rows, run):
    (end,) = trained([run], rows)
    return end.head.log_probabilities(rows.select.columns).exp()


def times(factor, rows=ROWS):
    return with_features(rows, lambda x: factor * x)


@pytest.mark.parametrize(("index", "name"), list(enumerate(CASES)), ids=str)
def test_a_power_of_two_changes_no_bit(index, name):
    """A small and a large factor in turn."""
    factor = EXACT[index % 2]
    wanted = of(name)[0].head.log_probabilities(ROWS.select.columns).exp()
    assert torch.equal(predicted(times(factor), CASES[name]), wanted)


@pytest.mark.parametrize(("index", "name"), list(enumerate(CASES)), ids=str)
def test_another_factor_changes_what_rounding_does(index, name):
    """A small and a large factor in turn."""
    exact = data(torch.float64)
    found, wanted = (predicted(rows, CASES[name]) for rows in (times(FACTORS[index % 2], exact), exact))
    assert (found - wanted).abs().max() < 1e-4


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", ["head", "head.body=mlp", "head.classifier=logreg", "everything"])
def test_in_single_precision_neither(name, factor):
    assert (predicted(times(factor), CASES[name]) - predicted(ROWS, CASES[name])).abs().max() < 1e-4


@pytest.mark.parametrize("factor", EXACT)
def test_nor_in_cross_validation(factor):
    columns = {name: x[:70] for name, x in ROWS.train.columns.items()}
    rows = replace(ROWS, train=Part(columns, ROWS.train.labels[:70]))
    folds = (torch.arange(70) % 2)[None]
    run = crossval_run(posthoc={"calibration": {"kind": "temperature"}})
    first, second = (list(cross_validate([run], each, folds))[-1] for each in (rows, times(factor, rows)))
    assert torch.equal(first.predictions.log_p, second.predictions.log_p)
    assert first.finished.chosen == second.finished.chosen


def two(first, second, dtype=torch.float32):
    """Return the vectors as two columns, each times a factor."""
    rows = data(dtype)
    parts = {}
    for role in ("train", "select", "calibrate"):
        part = getattr(rows, role)
        x = part.columns["x"]
        parts[role] = Part({"a": first * x[:, :8], "b": second * x[:, 8:]}, part.labels, part.groups)
    return Data(**parts, class_names=rows.class_names)


@pytest.mark.parametrize("tree", [{}, MLP, {"head": {"classifier": {"kind": "knn"}}}], ids=["linear", "mlp", "knn"])
def test_columns_have_a_unit_each_so_that_none_drowns_the_other(tree):
    run = RunSpec.model_validate(merged(BASE, tree, {"columns": ["a", "b"]}))
    assert torch.equal(predicted(two(2.0**-10, 2.0**10), run), predicted(two(1, 1), run))
    x = train_rows(run, two(1e-3, 1e3)).x.double()
    for part in (x[:, :8], x[:, 8:]):
        assert part.std(0, correction=0).norm().item() == pytest.approx((2 * DIM**0.5) / 2**0.5, rel=1e-5)


@pytest.mark.parametrize(
    "tree",
    [
        {"head": {"classifier": {"kind": "zero_shot"} | small(ZeroShot)}},
        {"head": {"classifier": {"kind": "cosine", "init": "weights"} | small(ZeroShot)}},
        {
            "head": {"body": {"kind": "mlp", "hidden": [DIM]}},
            "second": {"kind": "refit", "classifier": {"kind": "zero_shot"} | small(ZeroShot)},
        },
    ],
    ids=["zero_shot", "cosine", "refit"],
)
def test_columns_that_are_compared_with_weights_from_a_file_share_one_unit(tree):
    run = RunSpec.model_validate(merged(BASE, tree, {"columns": ["a", "b"]}))
    rows = two(1, 5)
    ratio = train_rows(run, rows).x / rows.train.features(("a", "b"))
    assert ratio.min().item() == pytest.approx(ratio.max().item(), rel=1e-5)


class TestUnits:
    X = torch.tensor([[1.0, 10], [3, 10], [5, 10]])

    def test_the_vectors(self):
        """The standard deviations are sqrt(8/3) and 0, and so is the length."""
        found = Standardise().build(self.X)
        assert found.unit.tolist() == pytest.approx([(8 / 3) ** 0.5 / 8**0.5] * 2)
        assert torch.allclose(found(self.X) * found.unit, self.X)
        centred = Standardise(center=True).build(self.X)(self.X)
        assert centred.square().sum(1).mean().sqrt().item() == pytest.approx(8**0.5)

    @pytest.mark.parametrize(("dim", "wanted"), [(1024, 16), (64, 16), (16, 8), (1, 2)])
    def test_a_length_of_16_and_of_2_for_a_coordinate_at_most(self, dim, wanted):
        x = 1e-3 * torch.randn(500, dim, generator=torch.Generator().manual_seed(4)) + 5
        found = Standardise(center=True).build(x)(x)
        assert length_in_units(dim) == wanted
        assert found.square().sum(1).mean().sqrt().item() == pytest.approx(wanted, rel=1e-3)

    def test_standardised_channels_have_deviation_1_and_know_the_unit(self):
        found = Standardise(std=True).build(self.X)
        assert found.scale.tolist() == pytest.approx([(8 / 3) ** 0.5, (8 / 3) ** 0.5 / 8**0.5])
        mean, scale = found.in_units
        assert torch.allclose((found(self.X) * scale + mean) * found.unit, self.X)

    @pytest.mark.parametrize(("x", "wanted"), [(torch.full((5, 4), 8.0), 4.0), (torch.zeros(5, 3), 1.0)])
    def test_rows_that_are_all_alike_have_their_own_length(self, x, wanted):
        assert Standardise().build(x).unit.tolist() == [wanted] * x.shape[1]

    def test_rounding_is_no_deviation(self):
        """In single precision, rows that differ only in the last digit are all alike."""
        x = torch.full((50, 4), 1000.0)
        x[::2] += 6e-5
        assert Standardise().build(x).unit.tolist() == pytest.approx([2000 / 4] * 4)

    def test_pieces_give_the_same_bits_as_all_rows(self):
        x = torch.randn(10_000, 5, generator=torch.Generator().manual_seed(2)) + 3
        pieces = [x[:4096], x[4096:8192], x[8192:]]
        found, wanted = Standardise(center=True).build_from(pieces, [2, 3]), Standardise(center=True).build(x, [2, 3])
        assert all(torch.equal(getattr(found, name), getattr(wanted, name)) for name in ("mean", "scale", "unit"))

    def test_it_is_no_part_of_a_bundle(self):
        assert list(Standardise().build(self.X).state_dict()) == ["mean", "scale"]
