import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.training.losses.lade import Lade

Z = torch.tensor([[1, 0.5, -0.2], [0.2, 0.8, 0.1], [-0.3, 0.4, 0.9], [2, 0, -1]], dtype=torch.float64)
LABELS = torch.tensor([0, 1, 2, 0])
LOG_PRIOR = torch.tensor([0.9, 0.09, 0.01], dtype=torch.float64).log()


def by_loops(z, labels, prior, penalty):
    """Compute the estimate class by class."""
    total, rows, classes = 0.0, len(z), len(prior)
    for c in range(classes):
        own = [z[i][c] for i in range(rows) if labels[i] == c]
        if own:
            second = math.log(sum(math.exp(z[i][c]) / (classes * prior[c]) for i in range(rows)) / rows)
            total -= prior[c] * (sum(own) / len(own) - second - penalty * second**2)
    return total


def test_the_vectors():
    term = Lade()(Z, LABELS, LOG_PRIOR).item()
    # The authors divide by the count plus 1e-8.
    assert term == pytest.approx(-1.0915555489, abs=1e-7)
    total = cross_entropy(Z + LOG_PRIOR, LABELS).item() + 0.1 * term
    assert total == pytest.approx(1.2578407522, abs=1e-8)


def test_it_equals_the_formula_written_out_without_classes_that_the_batch_lacks():
    z = torch.randn(12, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 0, 1, 1, 3, 3, 3, 3, 0, 0, 1])
    prior = torch.tensor([0.4, 0.3, 0.1, 0.15, 0.05], dtype=torch.float64)
    for penalty in (0.0, 0.1, 1.0):
        found = Lade(penalty=penalty)(z, labels, prior.log()).item()
        assert found == pytest.approx(by_loops(z.tolist(), labels.tolist(), prior.tolist(), penalty), abs=1e-12)


def test_gradients_are_those_of_finite_differences_and_stay_finite():
    assert torch.autograd.gradcheck(lambda z: Lade()(z, LABELS, LOG_PRIOR), Z.clone().requires_grad_())
    z = torch.tensor([[1e4, -1e4, 0]], requires_grad=True)
    Lade()(z, torch.tensor([1]), LOG_PRIOR).backward()
    assert z.grad.isfinite().all()


def test_heads_with_their_own_penalty_and_prior_equal_a_loop():
    z = torch.stack([Z, -Z, 2 * Z])
    priors = torch.stack([LOG_PRIOR, LOG_PRIOR.flip(0), torch.full_like(LOG_PRIOR, -math.log(3))])
    numbers = torch.tensor([0.0, 0.1, 1.0], dtype=torch.float64)

    def one(logits, log_prior, number):
        return Lade().model_copy(update={"penalty": number})(logits, LABELS, log_prior)

    gradients, values = torch.func.vmap(torch.func.grad_and_value(one))(z, priors, numbers)
    for k, number in enumerate(numbers.tolist()):
        gradient, value = torch.func.grad_and_value(one)(z[k], priors[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(gradients[k], gradient, rtol=0, atol=1e-12)
