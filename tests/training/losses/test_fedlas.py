"""FeDLaS: shares, gate and gradients of the worked example, and its controls."""

from dataclasses import replace

import pytest
import torch
from four_rows import Y, Z
from steps import context, effects_of
from torch.nn.functional import cross_entropy

from frostbench.heads.bodies.body import Pass
from frostbench.heads.bodies.dense import zero_layer
from frostbench.heads.head import Core
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.fedlas import Fedlas, Gate, gamma
from frostbench.training.losses.loss import LossSpec, branched_objective
from frostbench.training.losses.parts import LossParts
from frostbench.training.losses.scores import Branch, Scores, Targets

G = torch.tensor([[1.0, 2, 0, 1], [0, 0.5, 0.5, 0], [3, 1, 2, 0], [0, 2, 0, 0]], dtype=torch.float64)


FORCED = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)


UNIFORM = torch.full((4,), 0.25, dtype=torch.float64)


OFFICIAL = torch.tensor([20.0, 100.0], dtype=torch.float64)


NONE = torch.full((2,), torch.nan, dtype=torch.float64)


def scores(z=Z):
    return Scores(z, z, z.log_softmax(-1))


def losses(spec, signs, before, z=Z, features=G):
    """Return shares and losses [4] after a batch has updated the statistics."""
    norms = spec.confidence(features, z)
    share = spec.shares(norms, spec.updated(before, norms), signs)
    return share, spec.blended(CrossEntropy()(scores(z), Targets(Y)), spec.regulariser(scores(z), UNIFORM), share)


def ls(alpha, **options):
    return Fedlas(alpha=alpha, beta=4, theta=0.95, **options)


def mbls(**options):
    return Fedlas(alpha=0.1, base="mbls", beta=0.5, margin=2, theta=0.95, **options)


def test_norms_and_their_statistics():
    spec = ls(0.1)
    norms = spec.confidence(G, Z)
    assert norms.tolist() == [4, 1, 6, 2]
    updated = spec.updated(OFFICIAL, norms)
    assert updated.tolist() == pytest.approx([4.0875, 7.106487993477932], abs=1e-12)
    wanted = [-0.012310959945, -0.434401015216, 0.269082410235, -0.293704330126]
    assert gamma(norms, updated).tolist() == pytest.approx(wanted, abs=1e-11)
    first = spec.updated(NONE, norms)
    assert first.tolist() == pytest.approx([3.25, 2.217355782608345], abs=1e-12)
    wanted = [0.338088238992, -1.014264716976, 1.239656876304, -0.563480398320]
    assert gamma(norms, first).tolist() == pytest.approx(wanted, abs=1e-11)


@pytest.mark.parametrize(
    ("indicator", "wanted"),
    [
        ("l2", [6**0.5, 0.5**0.5, 14**0.5, 2]),
        ("max_logit", [2, 1.5, 3, 4]),
        ("max_prob", [0.710099922886, 0.585116523857, 0.839024507463, 0.925158101448]),
    ],
)
def test_other_indicators(indicator, wanted):
    assert ls(0.1, indicator=indicator).confidence(G, Z).tolist() == pytest.approx(wanted, abs=1e-11)


@pytest.mark.parametrize(
    ("spec", "before", "shares", "mean"),
    [
        (ls(0.1), OFFICIAL, [0.097538305449, 0.170076496181, 0.149159754754, 0.152802932991], 1.656061540655123),
        (ls(0.05), OFFICIAL, None, 1.5944807510902717),
        (mbls(), OFFICIAL, [0.099692226973, 0.110817531404, 0.106716931192, 0.107329441028], 1.4525741452366208),
        (mbls(reduction="sum"), OFFICIAL, None, 1.7022361626335254),
        (ls(0.1), NONE, None, 1.6813361291624864),
        (ls(0.05), NONE, None, 1.6071180453439537),
        (mbls(), NONE, None, 1.4291477868725668),
        (mbls(reduction="sum"), NONE, None, 1.7073105930892405),
    ],
)
def test_losses_of_the_worked_example_under_given_signs(spec, before, shares, mean):
    found, loss = losses(spec, FORCED, before)
    if shares is not None:
        assert found.tolist() == pytest.approx(shares, abs=1e-11)
    assert float(loss.mean()) == pytest.approx(mean, abs=1e-12)


def gate():
    found = Gate(4, 2, torch.Generator()).double()
    found.hidden.weight.data = torch.tensor([[0.5, -0.5, 0.25, 0], [0, 1, -1, 0.5]], dtype=torch.float64)
    found.hidden.bias.data = torch.tensor([0.1, -0.2], dtype=torch.float64)
    found.out.weight.data = torch.tensor([[1, -0.5], [-0.5, 1]], dtype=torch.float64)
    found.out.bias.data = torch.tensor([0, 0.1], dtype=torch.float64)
    return found


def test_the_gate_of_the_worked_example():
    module, z = gate(), Z.clone().requires_grad_()
    signs = module(z)
    assert signs.tolist() == [1, 1, -1, -1]
    assert torch.autograd.grad(signs.sum(), z, allow_unused=True) == (None,)
    first, second = module.out(torch.nn.functional.leaky_relu(module.hidden(Z), 0.01)).softmax(1).unbind(1)
    wanted = [0.519021833898, 0.548380565092, -0.759062772964, -0.992142519707]
    assert (second - first).tolist() == pytest.approx(wanted, abs=1e-11)


def test_losses_and_gradients_through_the_gate():
    module = gate()
    share, loss = losses(ls(0.1), module(Z), OFFICIAL)
    wanted = [0.097538305449, 0.029923503819, 0.050840245246, 0.152802932991]
    assert share.tolist() == pytest.approx(wanted, abs=1e-11)
    assert float(loss.detach().mean()) == pytest.approx(1.6780932049959638, abs=1e-12)
    weight, bias = torch.autograd.grad(loss.mean(), (module.out.weight, module.out.bias))
    assert bias.tolist() == pytest.approx([0.010398122034, -0.010398122034], abs=1e-11)
    row = [0.008537524708, 0.003499776149]
    assert weight.flatten().tolist() == pytest.approx([*row, *(-value for value in row)], abs=1e-11)
    share, loss = losses(mbls(), module(Z), OFFICIAL)
    wanted = [0.099692226973, 0.089182468596, 0.093283068808, 0.107329441028]
    assert share.tolist() == pytest.approx(wanted, abs=1e-11)
    assert float(loss.detach().mean()) == pytest.approx(1.4694962668898097, abs=1e-12)


def test_a_sign_is_pushed_to_where_the_loss_falls():
    signs = torch.tensor([1.0, 1, -1, -1], dtype=torch.float64, requires_grad=True)
    _, loss = losses(ls(0.1), signs, OFFICIAL)
    (gradient,) = torch.autograd.grad(loss.mean(), signs)
    wanted = [-0.000999659341, -0.012435696186, -0.025506720287, -0.035743809124]
    assert gradient.tolist() == pytest.approx(wanted, abs=1e-11)
    own = Z.gather(1, Y[:, None])[:, 0]
    norms = ls(0.1).confidence(G, Z)
    above = gamma(norms, ls(0.1).updated(OFFICIAL, norms))
    assert torch.equal(gradient.sign(), (above * (own - Z.mean(1))).sign())


@pytest.mark.parametrize("spec", [ls(0.1), mbls()])
def test_gradients_in_the_logits_are_those_of_a_given_share(spec):
    z = Z.clone().requires_grad_()
    share, loss = losses(spec, FORCED, OFFICIAL, z)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    p, hard = Z.softmax(1), torch.nn.functional.one_hot(Y, 4).double()
    a = share[:, None]
    if spec.base == "label_smoothing":
        wanted = p - ((1 - a) * hard + a / 4)
    else:
        gap = (Z.amax(1, keepdim=True) - Z > 2).double()
        top = torch.nn.functional.one_hot(Z.argmax(1), 4).double()
        wanted = (1 - a) * (p - hard) + a * (top * gap.sum(1, keepdim=True) - gap) / 4
    assert torch.allclose(gradient, wanted, atol=1e-12)


def test_shares_lie_within_their_bounds():
    one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    spec = Fedlas(alpha=0.1, beta=4)
    norms = torch.tensor([1 + 1e-3, 1 + 1e-3, 1 + 1e-3], dtype=torch.float64)
    signs = torch.tensor([1.0, -1, 0], dtype=torch.float64)
    found = spec.shares(norms, one, signs)
    assert found.tolist() == pytest.approx([0.1964027580075817, 0.0035972419924183, 0.1], abs=1e-12)
    far = spec.shares(norms * 1e3, one, signs)
    assert far.min() >= 0
    assert far.max() <= 0.2


def test_without_beta_it_is_label_smoothing_or_a_blend_with_the_margin_penalty():
    spec = Fedlas(alpha=0.1, beta=0)
    _, loss = losses(spec, FORCED, NONE)
    assert float(loss.mean()) == pytest.approx(1.6235249615254206, abs=1e-12)
    assert float(cross_entropy(Z, Y, label_smoothing=0.1)) == pytest.approx(float(loss.mean()), abs=1e-12)
    _, loss = losses(Fedlas(alpha=0.1, beta=0, base="mbls", margin=2), FORCED, NONE)
    assert float(loss.mean()) == pytest.approx(1.4577349653728784, abs=1e-12)


def test_constant_norms_give_every_sample_alpha():
    share, loss = losses(ls(0.1), FORCED, NONE, features=torch.ones_like(G))
    assert share.tolist() == [0.1] * 4
    assert float(loss.mean()) == pytest.approx(1.6235249615254206, abs=1e-12)


def test_a_batch_of_one_and_norms_that_overflow_leave_the_statistics():
    spec = ls(0.1)
    assert spec.updated(OFFICIAL, torch.ones(1, dtype=torch.float64)).tolist() == [20, 100]
    assert spec.updated(OFFICIAL, torch.tensor([1.0, torch.inf], dtype=torch.float64)).tolist() == [20, 100]
    assert spec.shares(torch.ones(1, dtype=torch.float64), NONE, FORCED[:1]).tolist() == [0.1]


def test_smoothing_goes_to_the_prior_where_asked():
    prior = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    found = Fedlas(alpha=0.1, spread="prior").regulariser(scores(), prior)
    assert torch.allclose(found, cross_entropy(Z, prior.expand(4, 4), reduction="none"))


def test_the_mean_share_is_label_smoothing_at_it_and_the_gate_still_learns():
    module = gate()
    own, _ = losses(ls(0.1), module(Z), OFFICIAL)
    z = Z.clone().requires_grad_()
    _, loss = losses(ls(0.1, share="batch_mean"), module(Z), OFFICIAL, z)
    mean = float(own.detach().mean())
    assert float(loss.detach().mean()) == pytest.approx(float(cross_entropy(Z, Y, label_smoothing=mean)), abs=1e-12)
    in_logits, in_gate = torch.autograd.grad(loss.mean(), (z, module.out.bias))
    plain = Z.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(cross_entropy(plain, Y, label_smoothing=mean), plain)
    assert torch.allclose(in_logits, wanted, atol=1e-12)
    assert in_gate.tolist() == pytest.approx([0.010398122034, -0.010398122034], abs=1e-11)


@pytest.mark.parametrize(("classes", "numbers"), [(10, 67), (100, 5152), (200, 20302), (1000, 501502)])
def test_the_gate_has_as_many_numbers_as_in_the_official_code(classes, numbers):
    part = Fedlas(alpha=0.1).part(Core(Pass(4), zero_layer(4, classes)), classes, torch.Generator())
    module = part.gate
    assert sum(p.numel() for p in module.parameters()) == numbers


def test_the_objective_is_the_worked_example_through_its_part_and_branches():
    spec = LossSpec(fedlas=ls(0.1, statistics="official"))
    statistics = class_statistics_of(Y, 4, spec.class_weight)
    statistics = replace(statistics, present=torch.arange(4), position=torch.arange(4), weight=torch.ones(4).double())
    core = Core(Pass(4), zero_layer(4, 4))
    parts = LossParts(spec, core, 4, torch.Generator()).double()
    part = parts.fedlas
    part.gate, part.signs = gate(), torch.zeros(10, dtype=torch.float64)
    step = context(core, statistics, Y, Z, x=G, index=torch.tensor([3, 0, 9, 5]))
    effects = effects_of(parts, spec, step)
    point = effects.wrapped(spec.point)
    value = branched_objective(spec, Z, [Branch(Y, torch.ones(4))], statistics, 0.0, point=point)
    assert float(value.detach()) == pytest.approx(1.6780932049959638, abs=1e-12)
    found = effects.finished()
    assert found["fedlas.norms"].tolist() == pytest.approx([4.0875, 7.106487993477932], abs=1e-12)
    assert parts.row_buffers == {"fedlas.signs": "set"}
    assert found["fedlas.signs"].tolist() == [1, 1, -1, -1]
    share, positive, greedy, flipped = found["sums"].tolist()
    assert share == pytest.approx([3.31104987505, 4], abs=1e-9)
    # Greedy signs are -sign(gamma) sign(s_y - mean): gamma is (-, -, +, -) and s_y - mean is (+, +, -, +).
    assert (positive, greedy, flipped) == ([2, 4], [2, 4], [0, 0])
    part.signs = torch.zeros(10, dtype=torch.float64)
    part.signs[torch.tensor([3, 0])] = torch.tensor([1.0, -1], dtype=torch.float64)
    assert effects.finished()["sums"][3].tolist() == [1, 2]
