import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression as Sklearn
from torch.nn.functional import cross_entropy

from heads.logreg import LogisticRegression


def digits():
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x[:400] / 16), torch.tensor(y[:400])


@pytest.mark.parametrize("c", [0.01, 1.0, 100.0])
def test_it_equals_a_tight_scikit_learn(c):
    x, y = digits()
    found = LogisticRegression(c=c, tolerance=1e-8).solve(x, lambda z: cross_entropy(z, y), 10)
    theirs = Sklearn(C=c, tol=1e-10, max_iter=20_000).fit(x.numpy(), y.numpy())
    ours = (x @ found.weight.T + found.bias).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.predict_proba(x.numpy()), abs=1e-5)


def test_the_certificate_is_the_gradient_of_the_stated_objective():
    x, y = digits()
    spec = LogisticRegression(c=10)
    found = spec.solve(x, lambda z: cross_entropy(z, y), 10)
    weight, bias = found.weight.requires_grad_(), found.bias.requires_grad_()
    value = cross_entropy(x @ weight.T + bias, y) + weight.square().sum() / (2 * spec.c * len(x))
    gradients = torch.autograd.grad(value, [weight, bias])
    assert found.gradient_norm == pytest.approx(max(g.abs().max().item() for g in gradients), rel=1e-6)
    assert found.gradient_norm <= 1e-6


def test_too_few_steps_leave_a_gradient_that_tells():
    x, y = digits()
    found = LogisticRegression(c=100, max_iterations=2).solve(x, lambda z: cross_entropy(z, y), 10)
    assert found.gradient_norm > 1e-3
    assert np.isfinite(found.weight.numpy()).all()


def test_a_large_offset_of_the_features_changes_nothing():
    x, y = digits()
    here = LogisticRegression().solve(x, lambda z: cross_entropy(z, y), 10)
    there = LogisticRegression().solve(x + 100, lambda z: cross_entropy(z, y), 10)
    ours, theirs = (x @ here.weight.T + here.bias).softmax(1), ((x + 100) @ there.weight.T + there.bias).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-4)
    assert there.gradient_norm <= 1e-6
