import math

import pytest
import torch

from training.losses.supcon import MlpProjector, NoProjector, SupCon

FOUR = torch.tensor([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=torch.float64)
SIX = torch.tensor([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1], [-0.6, 0.8], [-1, 0]], dtype=torch.float64)


def by_loops(x, labels, temperature):
    """Equation 2 of the paper, written out."""
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
    assert found.tolist() == pytest.approx(each, abs=1e-9)
    assert has_positive.tolist() == [bool((labels == y).sum() > 1) for y in labels]
    assert loss(x, labels).item() == pytest.approx(mean, abs=1e-9)
    assert loss(3 * x, labels).item() == pytest.approx(mean, abs=1e-9)


def test_it_equals_the_formula_written_out():
    x = torch.randn(30, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(8, (30,), generator=torch.Generator().manual_seed(1))
    wanted = by_loops(x, labels, 0.1)
    assert SupCon()(x, labels).item() == pytest.approx(sum(wanted) / len(wanted), abs=1e-9)


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
    loss = SupCon(temperature=0.01)(x, torch.tensor(labels))
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


def test_a_batch_without_pairs_costs_nothing():
    x = torch.randn(3, 4, requires_grad=True, generator=torch.Generator().manual_seed(0))
    loss = SupCon()(x, torch.tensor([0, 1, 2]))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(x.grad, torch.zeros(3, 4))


def test_the_gradient_is_that_of_finite_differences():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda v: SupCon(temperature=0.5)(v, labels), x)


def test_projectors_have_their_widths_and_come_from_the_generator():
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(NoProjector().build(6, torch.Generator())(x), x)
    spec = MlpProjector(hidden=5, width=3)
    a, b = (spec.build(6, torch.Generator().manual_seed(1)) for _ in range(2))
    assert a(x).shape == (4, 3)
    assert torch.equal(a(x), b(x))
