import math

import pytest
import torch

from frostbench.training.losses.projector import MlpProjector, NoProjector
from frostbench.training.losses.supcon import SupCon

FOUR = torch.tensor([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=torch.float64)
ALIKE = torch.ones(9, dtype=torch.float64)
SIX = torch.tensor([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1], [-0.6, 0.8], [-1, 0]], dtype=torch.float64)


def by_loops(x, labels, temperature):
    """Compute equation 2 of the paper with loops."""
    unit = [[v / math.hypot(*row) for v in row] for row in x.tolist()]
    similar = [[sum(a * b for a, b in zip(p, q, strict=True)) / temperature for q in unit] for p in unit]
    losses = []
    for i, label in enumerate(labels.tolist()):
        others = [j for j in range(len(unit)) if j != i]
        positives = [j for j in others if labels[j] == label]
        if positives:
            everything = math.log(sum(math.exp(similar[i][a]) for a in others))
            losses.append(-sum(similar[i][p] - everything for p in positives) / len(positives))
    return losses


@pytest.mark.parametrize(
    ("x", "labels", "temperature", "each", "mean"),
    [
        (FOUR, [0, 0, 1, 2], 0.5, [0.233257497, 0.6271230573], 0.4301902771),
        (
            SIX,
            [0, 0, 0, 1, 1, 2],
            0.1,
            [1.1272241875, 1.0064351334, 2.0072858264, 0.7589378277, 0.1320699493],
            1.0063905849,
        ),
    ],
)
def test_the_vectors(x, labels, temperature, each, mean):
    loss, labels = SupCon(temperature=temperature), torch.tensor(labels)
    found, has_positive = loss.per_anchor(x, labels)
    assert found[has_positive].tolist() == pytest.approx(each, abs=1e-9)
    assert (found[~has_positive] == 0).all()
    assert has_positive.tolist() == [bool((labels == y).sum() > 1) for y in labels]
    assert loss(x, labels, ALIKE).item() == pytest.approx(mean, abs=1e-9)
    assert loss(3 * x, labels, ALIKE).item() == pytest.approx(mean, abs=1e-9)


def test_it_equals_the_formula_written_out():
    x = torch.randn(30, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(8, (30,), generator=torch.Generator().manual_seed(1))
    wanted = by_loops(x, labels, 0.1)
    assert SupCon()(x, labels, ALIKE).item() == pytest.approx(sum(wanted) / len(wanted), abs=1e-9)


@pytest.mark.parametrize(
    ("labels", "x"),
    [
        ([0, 1, 2], [[1.0, 0], [0, 1], [1, 1]]),
        ([0], [[1.0, 2]]),
        ([0, 0, 0], [[1.0, 0], [1, 0], [1, 0]]),
        ([0, 0, 1], [[0.0, 0], [1, 0], [0, 0]]),
        ([0, 0, 1], [[1e4, 0], [-1e4, 0], [1e4, 1]]),
    ],
)
def test_values_and_gradients_stay_finite(labels, x):
    x = torch.tensor(x, requires_grad=True)
    loss = SupCon(temperature=0.01)(x, torch.tensor(labels), ALIKE)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


def test_a_batch_without_pairs_costs_nothing():
    x = torch.randn(3, 4, requires_grad=True, generator=torch.Generator().manual_seed(0))
    loss = SupCon()(x, torch.tensor([0, 1, 2]), ALIKE)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(x.grad, torch.zeros(3, 4))


def test_the_gradient_is_that_of_finite_differences():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda v: SupCon(temperature=0.5)(v, labels, ALIKE), x)


def test_projectors_have_their_widths_and_come_from_the_generator():
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(NoProjector().build(6, torch.Generator())(x), x)
    spec = MlpProjector(hidden=5, width=3)
    a, b = (spec.build(6, torch.Generator().manual_seed(1)) for _ in range(2))
    assert a(x).shape == (4, 3)
    assert torch.equal(a(x), b(x))


def test_with_class_weights_a_row_counts_by_its_class():
    labels, weight = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([0.5, 2.0, 9.0])
    first, second = 1.1272241875 + 1.0064351334 + 2.0072858264, 0.7589378277 + 0.1320699493
    wanted = (0.5 * first + 2 * second) / (3 * 0.5 + 2 * 2)
    loss = SupCon(temperature=0.1, class_weighted=True)
    assert loss(SIX, labels, weight).item() == pytest.approx(wanted, abs=1e-9)
    assert loss(SIX, labels, ALIKE).item() == pytest.approx(1.0063905849, abs=1e-9)
    assert loss(SIX[[0, 3, 5]], torch.tensor([0, 1, 2]), weight).item() == 0


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 1, 2], [0, 1, 2, 3, 4, 5]])
def test_heads_with_their_own_temperature_equal_a_loop(labels):
    labels = torch.tensor(labels)
    x = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.rand(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    numbers = torch.tensor([0.05, 0.5, 2.0], dtype=torch.float64)

    def one(rows, weight, number):
        loss = SupCon(class_weighted=True).model_copy(update={"temperature": number})
        return loss(rows, labels, weight)

    lifted = torch.func.vmap(torch.func.grad_and_value(one))
    gradients, values = lifted(x, weight, numbers)
    for k, number in enumerate(numbers.tolist()):
        gradient, value = torch.func.grad_and_value(one)(x[k], weight[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(gradients[k], gradient, rtol=0, atol=1e-12)
