import numpy as np
import pytest
import torch

from frostbench.heads.closed_form.eigen import eigenbasis


@pytest.mark.parametrize("shape", [(50, 7), (7, 50), (1, 3)], ids=["tall", "wide", "one row"])
def test_it_is_the_weighted_covariance_and_its_vectors_are_orthonormal(shape):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=draw, dtype=torch.float64) * torch.logspace(0, -6, shape[1]).double() + 10
    x[:, 1] = 4
    weight = torch.rand(shape[0], generator=draw, dtype=torch.float64) + 0.1
    basis = eigenbasis(x, weight)
    expected = np.cov(x.numpy(), rowvar=False, aweights=weight.numpy(), ddof=0)
    assert basis.vectors.shape == (shape[1], min(shape))
    assert (basis.vectors * basis.values @ basis.vectors.T).numpy() == pytest.approx(expected, abs=1e-12)
    assert (basis.vectors.T @ basis.vectors).numpy() == pytest.approx(np.eye(min(shape)), abs=1e-12)
    assert basis.mean.numpy() == pytest.approx(np.average(x.numpy(), axis=0, weights=weight.numpy()))
    assert (basis.rotate(x) @ basis.vectors.T + basis.mean).numpy() == pytest.approx(x.numpy(), abs=1e-12)
