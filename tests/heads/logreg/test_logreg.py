import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression as Sklearn
from torch.nn.functional import cross_entropy

import frostbench.heads.logreg.logreg
from frostbench.heads.logreg.logreg import LogisticRegression, solve_path
from frostbench.heads.spec import SWEPT


def digits(rows=400):
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x[:rows] / 16), torch.tensor(y[:rows])


def tail():
    """Digits (with constant pixels) with a single row of one class and few of others."""
    x, y = digits(600)
    kept = torch.cat([torch.where(y == c)[0][:n] for c, n in enumerate((50, 40, 30, 20, 12, 8, 5, 3, 2, 1))])
    return x[kept], y[kept]


def two():
    x, y = digits(300)
    kept = (y == 3) | (y == 8)
    return x[kept] + 0.3 * torch.randn(int(kept.sum()), 64, generator=torch.Generator().manual_seed(0)).double(), (
        y[kept] == 8
    ).long()


def wide():
    x, y = digits(40)
    draw = torch.Generator().manual_seed(0)
    return x @ torch.randn(64, 80, generator=draw).double() / 8 + 2, y


def entropies(labels, weights=None):
    """Mean cross-entropies of the heads, with class weights [K, C] per head."""

    def mean_losses(logits, index):
        own = labels.view(1, -1, 1).expand(len(logits), -1, 1)
        loss = -logits.log_softmax(-1).gather(2, own).squeeze(2)
        if weights is None:
            return loss.mean(1)
        weight = weights.to(loss.dtype)[index][:, labels]
        return (weight * loss).sum(1) / weight.sum(1)

    return mean_losses


@pytest.mark.parametrize("c", [0.01, 1.0, 100.0])
def test_it_equals_a_tight_scikit_learn(c):
    x, y = digits()
    found = LogisticRegression(c=c, tolerance=1e-8).solve(x, lambda z: cross_entropy(z, y), 10)
    theirs = Sklearn(C=c, tol=1e-10, max_iter=20_000).fit(x.numpy(), y.numpy())
    ours = (x @ found.weight.T + found.bias).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.predict_proba(x.numpy()), abs=1e-5)


@pytest.mark.parametrize("rows", [digits(200), tail(), wide()], ids=["digits", "tail", "wide"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_a_path_equals_tight_fits_of_scikit_learn(rows, weighted):
    x, y = rows
    strengths = [1e-4, 1e-2, 1.0, 1e3]
    counts = torch.bincount(y, minlength=10).double()
    weights = (1 / counts).expand(4, -1) if weighted else torch.ones(4, 10).double()
    found = solve_path([LogisticRegression(c=c, tolerance=1e-10) for c in strengths], x, entropies(y, weights), 10)
    rows_weight = (weights[0][y] / weights[0][y].mean()).numpy()
    for c, ours in zip(strengths, found, strict=True):
        theirs = Sklearn(C=c, tol=1e-10, solver="newton-cholesky", max_iter=1000)
        theirs.fit(x.numpy(), y.numpy(), sample_weight=rows_weight)
        assert ours.gradient_norm <= 1e-10
        probabilities = (x @ ours.weight.T + ours.bias).softmax(1).numpy()
        assert probabilities == pytest.approx(theirs.predict_proba(x.numpy()), abs=1e-5)
        away = (ours.weight - ours.weight.mean(0)).numpy()
        assert away == pytest.approx(theirs.coef_ - theirs.coef_.mean(0), abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("c", [1e-4, 1e-2, 1.0, 1e3])
def test_two_classes_equal_scikit_learn_at_twice_the_strength(c):
    # Its two-class model has one column w; ours are -w/2 and w/2, whose squares sum to half of w's.
    x, y = two()
    (found,) = solve_path([LogisticRegression(c=c / 2, tolerance=1e-10)], x, entropies(y), 2)
    theirs = Sklearn(C=c, tol=1e-10, solver="newton-cholesky", max_iter=1000).fit(x.numpy(), y.numpy())
    away = (found.weight[1] - found.weight[0]).numpy()
    assert found.gradient_norm <= 1e-10
    assert away == pytest.approx(theirs.coef_[0], abs=1e-5, rel=1e-5)


def test_heads_with_different_losses_tolerances_and_step_limits():
    x, y = digits()
    weights = torch.tensor([[1.0] * 10, [1.0, 9.0] * 5, [3.0, 1.0] * 5]).double()
    specs = [
        LogisticRegression(c=1, tolerance=1e-8),
        LogisticRegression(c=10, tolerance=1e-3),
        LogisticRegression(c=100, max_iterations=3),
    ]
    found = solve_path(specs, x, entropies(y, weights), 10)
    alone = specs[0].solve(x, lambda z: cross_entropy(z, y), 10)
    assert torch.allclose(found[0].weight, alone.weight, atol=1e-5)
    assert found[0].gradient_norm <= 1e-8
    assert 1e-8 < found[1].gradient_norm <= 1e-3
    assert found[2].gradient_norm > 1e-3
    assert found[2].iterations == 3


def test_a_small_memory_budget_solves_heads_in_several_batches(monkeypatch):
    x, y = digits(200)
    seen = set()

    def mean_losses(logits, index):
        seen.add(tuple(index.tolist()))
        return entropies(y)(logits, index)

    specs = [LogisticRegression(c=c, tolerance=1e-9) for c in (0.01, 0.1, 1, 10, 100)]
    whole = solve_path(specs, x, mean_losses, 10)
    assert (0, 1, 2, 3, 4) in seen
    seen.clear()
    monkeypatch.setattr(frostbench.heads.logreg.logreg, "BUDGET_BYTES", 2 * 10 * (64 * 200 + 160 * 65))
    parts = solve_path(specs, x, mean_losses, 10)
    assert {(0, 1), (2, 3), (4,)} <= seen
    assert max(len(index) for index in seen) == 2
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one.weight, other.weight, atol=1e-5)


def test_the_certificate_is_the_gradient_of_the_stated_objective():
    x, y = digits()
    spec = LogisticRegression(c=10)
    found = spec.solve(x + 5, lambda z: cross_entropy(z, y), 10)
    weight, bias = found.weight.requires_grad_(), found.bias.requires_grad_()
    value = cross_entropy((x + 5) @ weight.T + bias, y) + weight.square().sum() / (2 * spec.c * len(x))
    gradients = torch.autograd.grad(value, [weight, bias])
    assert found.gradient_norm == pytest.approx(max(g.abs().max().item() for g in gradients), rel=1e-6)
    assert found.gradient_norm <= 1e-6


def test_too_few_steps_are_visible_in_the_gradient_norm():
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


def test_a_class_that_the_loss_ignores_stays_at_zero():
    x, y = digits()
    present = torch.tensor([c for c in range(11) if c != 4])
    found = LogisticRegression().solve(x, lambda z: cross_entropy(z[:, present], y), 11)
    plain = LogisticRegression().solve(x, lambda z: cross_entropy(z, y), 10)
    assert found.weight[4].abs().max() < 1e-12
    assert torch.allclose(found.weight[present], plain.weight, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_features_of_any_scale_reach_the_tolerance(scale):
    x, y = digits()
    found = LogisticRegression(c=1 / scale**2).solve(x * scale, lambda z: cross_entropy(z, y), 10)
    plain = LogisticRegression(c=1, tolerance=1e-9).solve(x, lambda z: cross_entropy(z, y), 10)
    assert found.gradient_norm <= 1e-6
    assert torch.allclose(found.weight * scale, plain.weight, atol=1e-2)


def test_only_the_strength_may_differ_within_a_stack():
    swept = {n for n, f in LogisticRegression.model_fields.items() if f.json_schema_extra == SWEPT}
    assert swept == {"c"}
