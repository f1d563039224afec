import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.heads.posthoc.calibrators.matrix import Matrix


def mixed_up(rows=500, classes=4, seed=0):
    """Labels drawn from softmax(true), and logits that mix the classes."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    mixing = torch.eye(classes).double() + 0.4 * torch.randn(classes, classes, generator=generator, dtype=torch.float64)
    return 1.5 * true @ mixing, labels


def objective(log_p, labels, w, b, off, intercept):
    classes = len(b)
    outside = (w.square().sum() - w.diagonal().square().sum()) / (classes * (classes - 1))
    return cross_entropy(log_p @ w.T + b, labels) + off * outside + intercept * b.square().sum() / classes


@pytest.mark.parametrize(("off", "intercept"), [(0.01, 0.01), (1.0, 0.1), (0.001, 5.0)])
def test_an_independent_optimiser_finds_the_same_and_the_gradient_vanishes(off, intercept):
    logits, labels = mixed_up()
    log_p = logits.log_softmax(1)
    found = Matrix(off_diagonal=off, intercept=intercept).fit(logits, labels)
    w = torch.eye(4, dtype=torch.float64).requires_grad_()
    b = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.LBFGS(
        [w, b], max_iter=3000, tolerance_grad=1e-11, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        theirs.zero_grad()
        loss = objective(log_p, labels, w, b, off, intercept)
        loss.backward()
        return loss

    theirs.step(closure)
    assert (found["w"] - w).abs().max() < 1e-4
    assert (found["b"] - b).abs().max() < 1e-4
    own = [found[name].clone().requires_grad_() for name in ("w", "b")]
    gradients = torch.autograd.grad(objective(log_p, labels, *own, off, intercept), own)
    assert max(float(g.abs().max()) for g in gradients) < 1e-6


def test_large_penalties_leave_only_one_scale_per_class():
    logits, labels = mixed_up()
    found = Matrix(off_diagonal=1e6, intercept=1e6).fit(logits, labels)
    assert (found["w"] - found["w"].diagonal().diag()).abs().max() < 1e-5
    assert found["b"].abs().max() < 1e-5


def test_it_recovers_the_true_probabilities():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20_000, 3, generator=generator, dtype=torch.float64)
    w = torch.tensor([[0.6, 0.2, 0.0], [-0.3, 0.9, 0.1], [0.0, 0.4, 0.3]], dtype=torch.float64)
    true = (logits.log_softmax(1) @ w.T + torch.tensor([0.5, -0.5, 0.0])).softmax(1)
    labels = torch.multinomial(true, 1, generator=generator).squeeze(1)
    spec = Matrix(off_diagonal=1e-6, intercept=1e-6)
    assert (spec.apply(logits, spec.fit(logits, labels)).exp() - true).abs().mean() < 0.01
    assert (logits.softmax(1) - true).abs().mean() > 0.1


@pytest.mark.parametrize(("rows", "classes"), [(99, 10), (50_000, 101)])
def test_more_parameters_than_rows_are_rejected(rows, classes):
    with pytest.raises(ValueError, match=f"of {classes} trained classes .* at least {classes**2} rows .* {rows} rows"):
        Matrix().check_size(rows, classes)
    Matrix(size="any").check_size(rows, classes)


def test_as_many_rows_as_classes_squared_are_enough():
    Matrix().check_size(100, 10)


def test_correctly_classified_rows_end_at_a_bound():
    found = Matrix().fit(4 * torch.eye(3).double(), torch.arange(3))
    assert found["w"].abs().max() <= 20
    assert Matrix().apply(4 * torch.eye(3).double(), found).isfinite().all()


def test_a_class_without_rows_keeps_its_matrix_row_and_affects_no_other():
    logits, labels = mixed_up()
    kept = labels != 1
    found = Matrix().fit(logits[kept], labels[kept])
    assert found["w"][1].tolist() == [0, 1, 0, 0]
    assert found["w"][:, 1].tolist() == [0, 1, 0, 0]
    assert found["b"][1] == 0
