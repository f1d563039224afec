import pytest
import torch

from frostbench.heads.closed_form.mahalanobis import Mahalanobis, shrunk_correlation
from frostbench.heads.fitting_rows import Rows

COVARIANCE = torch.tensor([[0.04, 0.01], [0.01, 0.09]], dtype=torch.float64)


def rows_of(x, labels, classes):
    return Rows(x, torch.as_tensor(labels), torch.ones(len(x), dtype=torch.float64), classes)


def test_the_shrunk_correlation_matches_the_vector():
    found = shrunk_correlation(COVARIANCE, 1, 1)
    assert found.flatten().tolist() == pytest.approx([1, 0.1567723603, 0.1567723603, 1], abs=1e-10)


def four_points(covariance):
    """Four points with mean 0 and this covariance [2, 2] (ddof 0)."""
    root = torch.linalg.cholesky(covariance)
    return torch.tensor([[1.0, 1], [-1, -1], [1, -1], [-1, 1]], dtype=torch.float64) @ root.T


def test_the_distance_matches_the_vector():
    layer = Mahalanobis(alpha2=1, normalise=False).fit(rows_of(four_points(COVARIANCE), [0] * 4, 1))
    assert layer(torch.tensor([[0.2, -0.1]])).item() == pytest.approx(-0.0576887437, abs=1e-7)


def test_it_equals_a_plain_computation_on_unit_rows():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 5, dtype=torch.float64, generator=generator)
    labels = torch.arange(60) % 3
    layer = Mahalanobis(alpha1=0.5, alpha2=0.25).fit(rows_of(x, labels, 3))
    unit = x / x.norm(dim=1, keepdim=True)
    wanted = []
    for c in range(3):
        own = unit[labels == c]
        covariance = torch.cov(own.T, correction=0)
        v1 = covariance.diagonal().mean()
        v2 = covariance[~torch.eye(5, dtype=torch.bool)].mean()
        shrunk = covariance + torch.where(torch.eye(5, dtype=torch.bool), 0.5 * v1, 0.25 * v2)
        correlation = shrunk / shrunk.diagonal().sqrt().outer(shrunk.diagonal().sqrt())
        away = unit - own.mean(0) / own.mean(0).norm()
        wanted.append(-(away @ correlation.inverse() * away).sum(1))
    assert torch.allclose(layer(x).double(), torch.stack(wanted, 1), rtol=1e-4)
    assert layer(x).dtype == torch.float32


def test_each_class_has_its_own_shape():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(400, 2, dtype=torch.float64, generator=generator)
    labels = torch.arange(400) % 2
    turn = torch.tensor([[[1.0, 0.95], [0.95, 1]], [[1, -0.95], [-0.95, 1]]], dtype=torch.float64)
    x = torch.einsum("nij,nj->ni", torch.linalg.cholesky(turn)[labels], noise)
    layer = Mahalanobis(alpha1=0.01, normalise=False).fit(rows_of(x, labels, 2))
    assert (layer(x).argmax(1) == labels).float().mean() > 0.8


def test_a_class_with_one_row_gets_the_mean_covariance():
    x = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = Mahalanobis(normalise=False).fit(rows_of(x, [0] * 19 + [1], 3))
    assert not torch.allclose(layer.whiteners[0], torch.eye(3), atol=0.01)
    assert torch.allclose(layer.whiteners[1], layer.whiteners[0], atol=1e-6)
    assert torch.allclose(layer.whiteners[2], layer.whiteners[0], atol=1e-6)


def test_weights_count_as_rows():
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(8) % 2
    weight = torch.ones(8, dtype=torch.float64)
    weight[0] = 2
    once = Mahalanobis().fit(Rows(x, labels, weight / weight.mean(), 2))
    twice = Mahalanobis().fit(rows_of(torch.cat([x, x[:1]]), torch.cat([labels, labels[:1]]), 2))
    assert torch.allclose(once(x), twice(x), atol=1e-5)


def test_matrices_too_large_are_rejected():
    rows = rows_of(torch.zeros(2, 1024), [0, 1], 1000)
    with pytest.raises(ValueError, match=r"take at most 2 GB, but 1000 classes with 1024 inputs need 4.2 GB. Raise"):
        Mahalanobis().fit(rows)


def test_shrinkage_must_leave_a_covariance():
    with pytest.raises(ValueError, match="alpha2 must be at most alpha1"):
        Mahalanobis(alpha1=0.5, alpha2=1)


def test_it_carries_no_prior():
    assert Mahalanobis().carried(torch.tensor([0.9, 0.1]).log()).exp().tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("alpha2", [0.0, 1.0])
@pytest.mark.parametrize("case", ["one row each", "absent", "two classes", "constant", "narrow", "a line"])
def test_odd_rows_give_finite_logits_and_a_state_that_loads(alpha2, case):
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(0))
    labels, classes = {"one row each": (range(6), 6), "absent": ([0, 0, 0, 3, 3, 4], 5)}.get(case, ([0, 1] * 3, 2))
    x = {"constant": torch.full_like(x, 0.1), "narrow": x[:, :1], "a line": x[:, :1].expand(6, 20)}.get(case, x)
    spec = Mahalanobis(alpha2=alpha2, normalise=case != "a line")
    layer = spec.fit(rows_of(x, list(labels), classes))
    assert layer(x).isfinite().all()
    state = layer.state_dict()
    again = spec.blank(x.shape[1], classes, {k: v.shape for k, v in state.items()})
    again.load_state_dict(state)
    assert torch.equal(again(x), layer(x))
    if case == "one row each":
        assert layer(x).argmax(1).tolist() == list(range(6))
