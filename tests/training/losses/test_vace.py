"""VACE through the training objective: losses and gradients under class temperatures, and minima of linear heads."""

import math

import numpy as np
import pytest
import torch
from four_rows import Y, Z
from scipy.optimize import minimize
from torch.nn.functional import cross_entropy

from frostbench.heads.bodies.body import Pass
from frostbench.heads.bodies.dense import zero_layer
from frostbench.heads.head import Core, fold_temperatures
from frostbench.heads.stepped.linear import Linear
from frostbench.training.engine.objective import Objective
from frostbench.training.engine.step_inputs import PerHead, PerStep
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.spec.stage import StageSpec

TEMPERATURES = torch.tensor([0.5, 1, 1.25, 2], dtype=torch.float64)
ONES = torch.ones(4, dtype=torch.float64)
STEP = PerStep(0, 0.5)


def objective_of(temperatures, width):
    """Build the objective of a linear head with these class temperatures and zero weights."""
    classes = len(temperatures)
    statistics = class_statistics_of(torch.arange(classes), classes, NoWeight())
    core = Core(Pass(width), zero_layer(width, classes), temperatures).double()
    return Objective(StageSpec(), Linear(), core, statistics, torch.Generator())


def value_of(objective, x, labels, step=STEP):
    statistics, draws = objective.statistics, objective.draw(x, labels, torch.Generator())
    per_head = PerHead({}, statistics.weight, statistics.log_prior_effective)
    return objective(x, labels, torch.arange(len(x)), draws, per_head, step)[0]


def vace(z, temperatures, labels=Y, step=STEP):
    """Return the objective of logits z [N, C], which an identity layer passes on."""
    objective = objective_of(temperatures, z.shape[1])
    objective.core.classifier.weight.data = torch.eye(z.shape[1], dtype=torch.float64)
    return value_of(objective, z, labels, step)


def per_row(z, temperatures, labels=Y):
    return [vace(z[i : i + 1], temperatures, labels[i : i + 1]).item() for i in range(len(z))]


def gradient_of(value, z):
    variable = z.clone().requires_grad_()
    return torch.autograd.grad(value(variable), variable)[0]


def test_losses_and_gradients_of_the_worked_example():
    wanted = [0.05519131810407, 0.5823826749754, 3.984676984457, 0.001069665208513]
    assert per_row(Z, TEMPERATURES) == pytest.approx(wanted, abs=1e-10)
    assert vace(Z, TEMPERATURES).item() == pytest.approx(1.155830160686206, abs=1e-12)
    rows = [
        [-2.684795723487e-02, 7.143976826216e-03, 1.557568651074e-03, 2.166520488688e-03],
        [9.296521802314e-02, -1.103585253031e-01, 3.168789325132e-02, 1.213302486366e-02],
        [1.867799365478e-01, 1.263895780781e-02, 1.114571689464e-01, -1.226751936323e-01],
        [-5.345466603059e-04, 4.170961278372e-06, 9.998328083117e-05, 6.906163391775e-05],
    ]
    gradient = gradient_of(lambda z: vace(z, TEMPERATURES), Z)
    assert torch.allclose(gradient, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (TEMPERATURES * gradient).sum(1).abs().max() < 1e-15
    assert gradient.sum(1).tolist() == pytest.approx([-0.01598, 0.02643, 0.18820, -0.00036], abs=1e-5)


def test_a_shared_label_of_the_worked_example():
    step = PerStep(0, 0.5, torch.tensor([1]), torch.tensor([0.7], dtype=torch.float64))
    assert vace(Z[:1], TEMPERATURES, Y[:1], step).item() == pytest.approx(1.1051913181040673, abs=1e-12)
    gradient = gradient_of(lambda z: vace(z, TEMPERATURES, Y[:1], step), Z[:1])
    assert gradient[0].tolist() == pytest.approx([0.492608171061, -0.271424092695, 0.006230274604, 0.008666081955])


def test_losses_under_temperatures_from_own_logits():
    temperatures = torch.tensor([2.0, 1, 1, 1], dtype=torch.float64)
    wanted = [0.746567269174, 0.520653051477, 5.1298082325, 0.468594855089]
    assert per_row(Z, temperatures) == pytest.approx(wanted, abs=1e-9)
    assert vace(Z, temperatures).item() == pytest.approx(1.71640585205974, abs=1e-12)


def test_the_loss_is_invariant_to_multiples_of_the_temperatures_only():
    value = vace(Z, TEMPERATURES).item()
    assert vace(Z + 3.3 * TEMPERATURES, TEMPERATURES).item() == pytest.approx(value, abs=1e-12)
    assert abs(vace(Z + 3.3, TEMPERATURES).item() - value) > 1e-2
    assert vace(Z, ONES).item() == pytest.approx(cross_entropy(Z, Y).item(), abs=1e-15)


@pytest.mark.parametrize(
    ("z", "temperatures", "found"),
    [((0.0, 5.0), (1.0, 0.5), 10.0000454), ((-10.0, -10.0), (1.0, 2.0), 5.0067153)],
)
def test_the_published_bound_does_not_hold(z, temperatures, found):
    """L_VACE <= L_CE + max log t is claimed."""
    z, temperatures = torch.tensor([z], dtype=torch.float64), torch.tensor(temperatures, dtype=torch.float64)
    label = torch.tensor([0])
    assert vace(z, temperatures, label).item() == pytest.approx(found, abs=1e-6)
    plain = vace(z, torch.ones_like(temperatures), label).item()
    assert vace(z, temperatures, label).item() > plain + math.log(float(temperatures.max())) + 1


def test_it_is_convex_in_the_logits():
    generator = torch.Generator().manual_seed(5)
    for _ in range(50):
        z, other = 5 * torch.randn(2, 7, 4, generator=generator, dtype=torch.float64)
        temperatures = 0.5 + 1.5 * torch.rand(4, generator=generator, dtype=torch.float64)
        labels = torch.randint(4, (7,), generator=generator)
        ends = vace(z, temperatures, labels).item() + vace(other, temperatures, labels).item()
        assert vace((z + other) / 2, temperatures, labels).item() <= ends / 2 + 1e-12


ROWS = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LABELS = torch.randint(4, (60,), generator=torch.Generator().manual_seed(2))


def minimum(penalty, temperatures):
    """Minimise the objective plus sum(penalty_k |w_k|^2) / 2; return the minimum and the folded linear layer."""
    objective = objective_of(temperatures, 3)
    layer = objective.core.classifier

    def value(flat):
        theta = torch.tensor(flat.reshape(4, 4))
        layer.weight.data, layer.bias.data = theta[:, :3].contiguous(), theta[:, 3].contiguous()
        loss = value_of(objective, ROWS, LABELS) + (penalty[:, None] * layer.weight.square()).sum() / 2
        of_weight, of_bias = torch.autograd.grad(loss, (layer.weight, layer.bias))
        return loss.item(), torch.cat([of_weight, of_bias[:, None]], 1).numpy().ravel()

    found = minimize(value, np.zeros(16), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    value(found.x)
    fold_temperatures(objective.core, temperatures)
    return found.fun, layer


def test_without_decay_a_linear_head_has_the_minimum_of_cross_entropy():
    (plain, layer), (tempered, folded) = minimum(0 * ONES, ONES), minimum(0 * ONES, TEMPERATURES)
    assert tempered == pytest.approx(plain, abs=1e-9)
    assert torch.allclose(layer(ROWS).softmax(1), folded(ROWS).softmax(1), atol=1e-5)


def test_with_decay_it_is_cross_entropy_whose_penalty_is_multiplied_by_squared_temperatures():
    tempered, folded = minimum(0.1 * ONES, TEMPERATURES)
    plain, layer = minimum(0.1 * TEMPERATURES.square(), ONES)
    assert tempered == pytest.approx(plain, abs=1e-9)
    assert torch.allclose(folded.weight, layer.weight, atol=1e-6)
    assert not torch.allclose(folded.weight, minimum(0.1 * ONES, ONES)[1].weight, atol=1e-2)
