import math

import pytest
import torch

from frostbench.training.losses.bcl import Bcl

FOUR = torch.tensor([[1, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1, 2])
PROTOTYPES = torch.tensor([[1, 0], [0, 1], [-1, 0]], dtype=torch.float64)


def by_loops(x, labels, prototypes, temperature):
    """Compute the class averages over batch and prototypes with loops."""
    points = [[v / math.hypot(*row) for v in row] for row in x.tolist() + prototypes.tolist()]
    owners = labels.tolist() + list(range(len(prototypes)))
    losses = []
    for i in range(len(x)):
        similar = [sum(a * b for a, b in zip(points[i], p, strict=True)) / temperature for p in points]
        others = {c: [j for j in range(len(points)) if j != i and owners[j] == c] for c in set(owners)}
        everything = math.log(sum(sum(math.exp(similar[j]) for j in group) / len(group) for group in others.values()))
        positive = others[owners[i]]
        losses.append(-sum(similar[p] - everything for p in positive) / len(positive))
    return losses


def test_the_vectors():
    loss = Bcl(temperature=0.5)
    wanted = [0.2000342271, 0.583136652, 0.4964188476, 0.9755785184]
    assert loss.per_anchor(FOUR, LABELS, PROTOTYPES).tolist() == pytest.approx(wanted, abs=1e-9)
    assert loss(FOUR, LABELS, PROTOTYPES).item() == pytest.approx(0.5637920613, abs=1e-9)
    assert loss(2 * FOUR, LABELS, 3 * PROTOTYPES).item() == pytest.approx(0.5637920613, abs=1e-9)


def test_it_equals_the_formula_written_out_with_classes_that_the_batch_lacks():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 5, dtype=torch.float64, generator=generator)
    prototypes = torch.randn(9, 5, dtype=torch.float64, generator=generator)
    labels = torch.randint(7, (30,), generator=generator)
    found = Bcl().per_anchor(x, labels, prototypes)
    assert found.tolist() == pytest.approx(by_loops(x, labels, prototypes, 0.1), abs=1e-9)


@pytest.mark.parametrize(
    ("x", "labels"), [([[1.0, 2]], [1]), ([[0.0, 0], [1e4, 0]], [0, 0]), ([[1.0, 0]] * 3, [2] * 3)]
)
def test_values_and_gradients_stay_finite(x, labels):
    x, prototypes = torch.tensor(x, requires_grad=True), PROTOTYPES.float().requires_grad_()
    loss = Bcl(temperature=0.01)(x, torch.tensor(labels), prototypes)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()
    assert prototypes.grad.isfinite().all()


def test_the_gradient_is_that_of_finite_differences():
    x, prototypes = FOUR.clone().requires_grad_(), PROTOTYPES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: Bcl(temperature=0.5)(a, LABELS, b), (x, prototypes))


def test_heads_with_their_own_temperature_equal_a_loop():
    x = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    prototypes = torch.randn(3, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    numbers = torch.tensor([0.05, 0.5, 2.0], dtype=torch.float64)

    def one(rows, prototypes, number):
        return Bcl().model_copy(update={"temperature": number})(rows, LABELS, prototypes)

    gradients, values = torch.func.vmap(torch.func.grad_and_value(one))(x, prototypes, numbers)
    for k, number in enumerate(numbers.tolist()):
        gradient, value = torch.func.grad_and_value(one)(x[k], prototypes[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(gradients[k], gradient, rtol=0, atol=1e-12)
