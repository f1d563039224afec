"""VACE: its values and gradient, the bounds it keeps and does not keep, and its minima."""

import math

import numpy as np
import pytest
import torch
from four_rows import Y, Z
from scipy.optimize import minimize
from torch.nn.functional import cross_entropy

TAU = torch.tensor([0.5, 1, 1.25, 2], dtype=torch.float64)


def vace(z, tau, y=Y):
    return cross_entropy(z / tau, y, reduction="none")


def test_losses_and_gradients_of_the_worked_example():
    z = Z.clone().requires_grad_()
    loss = vace(z, TAU)
    wanted = [0.05519131810407, 0.5823826749754, 3.984676984457, 0.001069665208513]
    assert loss.tolist() == pytest.approx(wanted, abs=1e-10)
    assert float(loss.detach().mean()) == pytest.approx(1.155830160686206, abs=1e-12)
    (gradient,) = torch.autograd.grad(loss.mean(), z)
    rows = [
        [-2.684795723487e-02, 7.143976826216e-03, 1.557568651074e-03, 2.166520488688e-03],
        [9.296521802314e-02, -1.103585253031e-01, 3.168789325132e-02, 1.213302486366e-02],
        [1.867799365478e-01, 1.263895780781e-02, 1.114571689464e-01, -1.226751936323e-01],
        [-5.345466603059e-04, 4.170961278372e-06, 9.998328083117e-05, 6.906163391775e-05],
    ]
    assert torch.allclose(gradient, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (TAU * gradient).sum(1).abs().max() < 1e-15
    assert gradient.sum(1).tolist() == pytest.approx([-0.01598, 0.02643, 0.18820, -0.00036], abs=1e-5)


def test_a_soft_target_of_the_worked_example():
    z = Z[:1].clone().requires_grad_()
    loss = cross_entropy(z / TAU, torch.tensor([[0.7, 0.3, 0, 0]], dtype=torch.float64))
    assert float(loss.detach()) == pytest.approx(1.1051913181040673, abs=1e-12)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient[0].tolist() == pytest.approx([0.492608171061, -0.271424092695, 0.006230274604, 0.008666081955])


def test_losses_under_temperatures_from_own_logits():
    loss = vace(Z, torch.tensor([2.0, 1, 1, 1], dtype=torch.float64))
    wanted = [0.746567269174, 0.520653051477, 5.1298082325, 0.468594855089]
    assert loss.tolist() == pytest.approx(wanted, abs=1e-9)
    assert float(loss.mean()) == pytest.approx(1.71640585205974, abs=1e-12)


def test_its_gradient_by_finite_differences_and_its_invariances():
    assert torch.autograd.gradcheck(lambda z: vace(z, TAU), Z.clone().requires_grad_())
    assert torch.allclose(vace(Z + 3.3 * TAU, TAU), vace(Z, TAU), atol=1e-12)
    assert not torch.allclose(vace(Z + 3.3, TAU), vace(Z, TAU), atol=1e-2)
    assert torch.equal(vace(Z, torch.ones(4, dtype=torch.float64)), cross_entropy(Z, Y, reduction="none"))


def random_cases(rows=4000):
    generator = torch.Generator().manual_seed(5)
    z = 5 * torch.randn(rows, 7, generator=generator, dtype=torch.float64)
    tau = 0.5 + 1.5 * torch.rand(rows, 7, generator=generator, dtype=torch.float64)
    return z, tau, torch.randint(7, (rows,), generator=generator)


def test_bounds_that_hold():
    z, tau, y = random_cases()
    plain = cross_entropy(z, y, reduction="none")
    gain = z * (1 / tau - 1)
    assert (
        cross_entropy(z / tau, y, reduction="none") <= plain + gain.amax(1) - gain.gather(1, y[:, None])[:, 0] + 1e-9
    ).all()
    even = 1 + 2 * tau[:, :1] / tau.max()
    at_most = plain / even[:, 0] + (1 - 1 / even[:, 0]) * math.log(7)
    assert (cross_entropy(z / even, y, reduction="none") <= at_most + 1e-9).all()


@pytest.mark.parametrize(
    ("z", "tau", "found"),
    [((0.0, 5.0), (1.0, 0.5), 10.0000454), ((-10.0, -10.0), (1.0, 2.0), 5.0067153)],
)
def test_the_published_bound_does_not_hold(z, tau, found):
    """L_VACE <= L_CE + max log tau is claimed."""
    z, tau = torch.tensor([z], dtype=torch.float64), torch.tensor(tau, dtype=torch.float64)
    y = torch.tensor([0])
    assert float(vace(z, tau, y)) == pytest.approx(found, abs=1e-6)
    assert float(vace(z, tau, y)) > float(cross_entropy(z, y)) + math.log(float(tau.max())) + 1


def test_it_is_convex_in_the_logits():
    z, tau, y = random_cases()
    other = z.roll(1, 0)
    middle = cross_entropy((z + other) / 2 / tau, y, reduction="none")
    ends = cross_entropy(z / tau, y, reduction="none") + cross_entropy(other / tau, y, reduction="none")
    assert (middle <= ends / 2 + 1e-12).all()


ROWS = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


OWN = torch.randint(4, (60,), generator=torch.Generator().manual_seed(2))


def minimum(penalty, tau):
    """The least mean loss of z / tau plus sum(penalty_k |w_k|^2) / 2, and the folded weights [4, 4] there."""

    def value(flat):
        theta = torch.tensor(flat.reshape(4, 4), requires_grad=True)
        loss = cross_entropy((ROWS @ theta[:, :3].T + theta[:, 3]) / tau, OWN)
        loss = loss + (penalty[:, None] * theta[:, :3].square()).sum() / 2
        (gradient,) = torch.autograd.grad(loss, theta)
        return float(loss.detach()), gradient.numpy().ravel()

    found = minimize(value, np.zeros(16), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return found.fun, torch.tensor(found.x.reshape(4, 4)) / tau[:, None]


def test_without_decay_a_linear_head_has_the_minimum_of_cross_entropy():
    nothing, one = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    (plain, weights), (tempered, folded) = minimum(nothing, one), minimum(nothing, TAU)
    assert tempered == pytest.approx(plain, abs=1e-9)
    inputs = torch.cat([ROWS, torch.ones(60, 1, dtype=torch.float64)], 1)
    assert torch.allclose((inputs @ weights.T).softmax(1), (inputs @ folded.T).softmax(1), atol=1e-5)


def test_with_decay_it_is_cross_entropy_whose_penalty_is_multiplied_by_tau_squared():
    one = torch.ones(4, dtype=torch.float64)
    (tempered, folded), (plain, weights) = minimum(0.1 * one, TAU), minimum(0.1 * TAU.square(), one)
    assert tempered == pytest.approx(plain, abs=1e-9)
    assert torch.allclose(folded[:, :3], weights[:, :3], atol=1e-6)
    assert not torch.allclose(folded[:, :3], minimum(0.1 * one, one)[1][:, :3], atol=1e-2)
