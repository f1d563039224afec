import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.heads.posthoc.calibrators.vector import Vector


def skewed(rows=400, classes=4, seed=0):
    """Labels drawn from softmax(true), and logits that are scaled and shifted per class."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    logits = true * torch.linspace(0.5, 2.5, classes).double() + torch.linspace(-1, 1, classes).double()
    return logits - logits.mean(1, keepdim=True), labels


def objective(logits, labels, w, b, strength):
    penalty = strength * ((w - 1).square().mean() + b.square().mean())
    return cross_entropy(w * logits + b, labels) + penalty


@pytest.mark.parametrize("strength", [1e-4, 0.01, 1.0])
def test_an_independent_optimiser_finds_the_same_and_the_gradient_vanishes(strength):
    logits, labels = skewed()
    found = Vector(strength=strength).fit(logits, labels)
    w = torch.ones(4, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.LBFGS(
        [w, b], max_iter=500, tolerance_grad=1e-10, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        theirs.zero_grad()
        loss = objective(logits, labels, w, b, strength)
        loss.backward()
        return loss

    theirs.step(closure)
    assert found["w"].tolist() == pytest.approx(w.tolist(), abs=1e-5)
    assert found["b"].tolist() == pytest.approx(b.tolist(), abs=1e-5)
    assert found["b"].sum().item() == pytest.approx(0, abs=1e-6)
    own = [found[name].clone().requires_grad_() for name in ("w", "b")]
    gradients = torch.autograd.grad(objective(logits, labels, *own, strength), own)
    assert max(float(g.abs().max()) for g in gradients) < 1e-6


def test_it_recovers_the_true_probabilities():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(40_000, 4, generator=generator, dtype=torch.float64)
    logits -= logits.mean(1, keepdim=True)
    true = (logits * torch.linspace(0.3, 1.5, 4).double() + torch.linspace(-1, 1, 4).double()).softmax(1)
    labels = torch.multinomial(true, 1, generator=generator).squeeze(1)
    spec = Vector(strength=1e-6)
    assert (spec.apply(logits, spec.fit(logits, labels)).exp() - true).abs().max() < 0.03
    assert (logits.softmax(1) - true).abs().max() > 0.3


def test_a_constant_in_each_row_changes_nothing():
    logits, labels = skewed()
    spec = Vector()
    moved = logits - 5000 * torch.rand(len(logits), 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = spec.apply(moved, spec.fit(moved, labels))
    assert torch.allclose(found, spec.apply(logits, spec.fit(logits, labels)), atol=1e-6)


def test_a_large_penalty_keeps_the_probabilities():
    logits, labels = skewed()
    spec = Vector(strength=1e6)
    assert torch.allclose(spec.apply(logits, spec.fit(logits, labels)), logits.log_softmax(1), rtol=0, atol=1e-5)


def test_a_class_without_rows_keeps_its_scale_and_offset():
    logits, labels = skewed()
    kept = labels != 2
    found = Vector().fit(logits[kept], labels[kept])
    assert (found["w"][2], found["b"][2]) == (1, 0)
    assert found["w"][0] != 1
