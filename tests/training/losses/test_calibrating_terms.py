"""MMCE and MDCA: values, limits, gradients, stacks, and their sum in an objective."""

import math

import pytest
import torch
from four_rows import Y, Z
from steps import context, effects_of
from torch.nn.functional import one_hot

from frostbench.heads.bodies.body import Pass
from frostbench.heads.bodies.dense import zero_layer
from frostbench.heads.head import Core
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.loss import LossSpec
from frostbench.training.losses.mdca import Mdca
from frostbench.training.losses.mmce import Mmce
from frostbench.training.losses.parts import LossParts
from frostbench.training.losses.scores import Branch

ONE = torch.ones(4, dtype=torch.float64)
WEIGHTED = Mmce(form="weighted")


def slope(value, logits=Z):
    z = logits.clone().requires_grad_()
    value(z).backward()
    return z.grad


def by_pairs(z, labels, width, form):
    """Compute the definition pair by pair."""
    p = z.softmax(-1).tolist()
    r, right = [max(row) for row in p], [row.index(max(row)) == y for row, y in zip(p, labels, strict=True)]
    n, total = len(r), 0.0
    hits = sum(right)
    for i in range(n):
        for j in range(n):
            kernel = math.exp(-abs(r[i] - r[j]) / width)
            if form == "squared":
                total += (right[i] - r[i]) * (right[j] - r[j]) * kernel / n**2
            elif right[i] and right[j]:
                total += (1 - r[i]) * (1 - r[j]) * kernel / hits**2
            elif not right[i] and not right[j]:
                total += r[i] * r[j] * kernel / (n - hits) ** 2
            else:
                of_right, of_wrong = (i, j) if right[i] else (j, i)
                total -= (1 - r[of_right]) * r[of_wrong] * kernel / (hits * (n - hits))
    return total if form == "squared" else math.sqrt(total)


def test_the_vectors():
    assert Mmce()(Z, Y).item() == pytest.approx(0.02318155613125518, abs=1e-10)
    assert math.sqrt(Mmce()(Z, Y).item()) == pytest.approx(0.152254905114, abs=1e-10)
    assert WEIGHTED(Z, Y).item() == pytest.approx(0.6957949396130816, abs=1e-10)
    assert Mdca()(Z, [(Y, ONE)]).item() == pytest.approx(0.13481867063336012, abs=1e-10)


def test_mmce_is_the_sum_over_pairs():
    z = 2 * torch.randn(15, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.where(torch.arange(15) < 8, z.argmax(-1), (z.argmax(-1) + 1) % 5)
    for width in (0.1, 0.4, 2.0):
        for form in ("squared", "weighted"):
            found = Mmce(width=width, form=form)(z, labels).item()
            assert found == pytest.approx(by_pairs(z, labels.tolist(), width, form), abs=1e-12)


@pytest.mark.parametrize("form", ["squared", "weighted"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 0], [1, 0, 0, 1]], ids=["all right", "all wrong"])
def test_a_batch_with_no_wrong_or_no_right_rows(form, labels):
    labels = torch.tensor(labels)
    sure = Z.softmax(-1).amax(-1)
    off = (1 - sure) if labels[0] == 0 else sure
    squared = (off[:, None] * off * (-(sure[:, None] - sure).abs() / 0.4).exp()).mean().item()
    wanted = squared if form == "squared" else math.sqrt(squared)
    assert Mmce(form=form)(Z, labels).item() == pytest.approx(wanted, abs=1e-12)
    assert torch.autograd.gradcheck(lambda z: Mmce(form=form)(z, labels), Z.clone().requires_grad_())


@pytest.mark.parametrize("term", [Mmce(), WEIGHTED], ids=lambda term: term.form)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_mmce_and_its_slope_stay_finite(term, dtype, scale):
    """Includes rows that are all confidently correct, where the root is 0, and a single row."""
    for rows in (4, 1):
        z = scale * Z[:rows].to(dtype)
        for labels in (Y[:rows], z.argmax(-1), (z.argmax(-1) + 1) % 4):
            value = term(z, labels)
            assert value.isfinite()
            assert value.dtype == dtype
            assert slope(lambda v, y=labels: term(v, y), z).isfinite().all()
    sure = 1e4 * one_hot(Y, 4).double()
    assert WEIGHTED(sure, Y).item() == 0
    assert (slope(lambda v: WEIGHTED(v, Y), sure) == 0).all()


def test_confidence_that_equals_accuracy_costs_nothing():
    """Two rows with equal logits for two classes: the tie predicts the first, so one is right and one wrong."""
    z, labels = torch.zeros(2, 2, dtype=torch.float64), torch.tensor([0, 1])
    assert Mmce()(z, labels).item() == pytest.approx(0, abs=1e-15)
    assert WEIGHTED(z, labels).item() == 0
    assert slope(lambda v: WEIGHTED(v, labels), z).tolist() == [[0, 0], [0, 0]]
    assert Mdca()(z, [(labels, ONE[:2])]).item() == 0


def test_slopes_are_those_of_finite_differences():
    """Correctness and class shares have no gradient."""
    for value in (lambda z: Mmce()(z, Y), lambda z: WEIGHTED(z, Y), lambda z: Mdca()(z, [(Y, ONE)])):
        assert torch.autograd.gradcheck(value, Z.clone().requires_grad_())


def test_mdca_of_mixed_rows_compares_with_the_mean_of_their_targets():
    other, share = torch.tensor([1, 1, 2, 3]), torch.tensor([0.7, 0.4, 1.0, 0.5], dtype=torch.float64)
    targets = share[:, None] * one_hot(Y, 4) + (1 - share)[:, None] * one_hot(other, 4)
    wanted = (Z.softmax(-1).mean(0) - targets.mean(0)).abs().mean().item()
    assert Mdca()(Z, [(Y, share), (other, 1 - share)]).item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("form", ["squared", "weighted"])
def test_heads_with_their_own_width_equal_a_loop(form):
    z, numbers = torch.stack([Z, Z.flip(0), 2 * Z]), torch.tensor([0.1, 0.4, 2.0], dtype=torch.float64)

    def one(logits, number):
        mmce = Mmce(form=form).model_copy(update={"width": number})
        return mmce(logits, Y) + Mdca()(logits, [(Y, ONE)])

    slopes, values = torch.func.vmap(torch.func.grad_and_value(one))(z, numbers)
    for k, number in enumerate(numbers.tolist()):
        wanted, value = torch.func.grad_and_value(one)(z[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(slopes[k], wanted, rtol=0, atol=1e-12)


def beside(tree, logits, labels, branches, statistics):
    """Return the sum of a loss's terms for a batch."""
    spec, core = LossSpec.model_validate(tree), Core(Pass(6), zero_layer(6, 6))
    parts = LossParts(spec, core, len(statistics.present), torch.Generator())
    step = context(core, statistics, labels, logits, branches=branches)
    return effects_of(parts, spec, step).with_terms(logits.new_zeros(())).item()


def test_an_objective_adds_each_by_its_weight_for_the_classes_with_rows_alone():
    rows = torch.arange(4).repeat_interleave(torch.tensor([9, 5, 3, 1])) + 1
    statistics = class_statistics_of(rows, 6, NoWeight())
    logits = torch.full((4, 6), 50.0, dtype=torch.float64)
    logits[:, 1:5] = Z
    branches = (Branch(Y + 1, ONE),)
    assert beside({}, logits, Y + 1, branches, statistics) == 0
    found = beside({"mmce": {"weight": 2, "form": "weighted"}}, logits, Y + 1, branches, statistics)
    assert found == pytest.approx(2 * 0.6957949396130816, abs=1e-10)
    found = beside({"mmce": {"weight": 2}, "mdca": {"weight": 0.5}}, logits, Y + 1, branches, statistics)
    assert found == pytest.approx(2 * 0.02318155613125518 + 0.5 * 0.13481867063336012, abs=1e-10)
    # They read what is predicted, whatever prior training adds.
    adjusted = {"mdca": {"weight": 1}, "logit_adjustment": {"tau": 1}}
    assert beside(adjusted, logits, Y + 1, branches, statistics) == pytest.approx(0.13481867063336012, abs=1e-10)
