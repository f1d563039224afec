import copy

import pytest
import torch
from torch.func import vmap
from torch.nn.functional import cross_entropy

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.arcface import ArcFace, widened

C = torch.tensor([[0.8, 0.3, -0.2]], dtype=torch.float64)
OWN = torch.tensor([0])
COUNTS = torch.tensor([900, 90, 10])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def naive(cos, margin):
    return (cos.acos() + margin).cos()


def loss(spec, cos, progress=1.0, scale=30.0):
    return cross_entropy(spec.margined(scale * cos, OWN, COUNTS, scale, progress), OWN).item()


def test_the_margin_matches_the_vector():
    logits = ArcFace(margin=0.5).margined(30 * C, OWN, COUNTS, 30.0, 1.0)
    assert (logits / 30)[0].tolist() == pytest.approx([0.4144107263, 0.3, -0.2], abs=1e-10)
    assert loss(ArcFace(margin=0.5), C) == pytest.approx(0.0318007941, abs=1e-10)
    assert loss(ArcFace(margin=0.0), C) == pytest.approx(3.0590236832e-07, rel=1e-9)


BEYOND = [(-1.0, -1.239713), (-0.95, -1.189713), (-0.9, -1.139713), (-0.8776, -1.117313)]
WITHIN = [(0.99, 0.801175), (0.5, 0.023597), (0.0, -0.479426), (-0.5, -0.853986), (-0.8775, -1.0)]


@pytest.mark.parametrize(("cos", "wanted"), BEYOND + WITHIN)
def test_the_margin_beyond_pi_falls_on(cos, wanted):
    found = widened(torch.tensor([cos], dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64))
    assert found.item() == pytest.approx(wanted, abs=1e-6)


def test_it_equals_the_naive_form_up_to_pi_and_is_smaller_beyond():
    margin = torch.tensor(0.5, dtype=torch.float64)
    within, beyond = (torch.tensor([cos for cos, _ in rows], dtype=torch.float64) for rows in (WITHIN, BEYOND))
    assert torch.allclose(widened(within, margin), naive(within, margin), rtol=0, atol=1e-12)
    assert (widened(beyond, margin) < naive(beyond, margin) - 0.1).all()


def test_a_loss_beyond_pi_matches_the_vector():
    cos = torch.tensor([[-0.95, 0.3, -0.2]], dtype=torch.float64)
    assert loss(ArcFace(margin=0.5), cos) == pytest.approx(44.6913833850, abs=1e-9)
    easy = ArcFace(margin=0.5, easy_margin=True)
    assert easy.margined(cos, OWN, COUNTS, 1.0, 1.0)[0, 0].item() == pytest.approx(-0.95)
    assert loss(easy, C) == pytest.approx(0.0318007941, abs=1e-10)


def test_it_never_rises_with_the_angle():
    theta = torch.linspace(0, torch.pi, 1001, dtype=torch.float64)
    found = widened(theta.cos(), torch.tensor(0.5, dtype=torch.float64))
    assert (found.diff() <= 1e-12).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_at_the_ends_is_finite(dtype):
    eps = torch.finfo(dtype).eps
    cos = torch.tensor([1.0, -1.0, 1 + eps, -1 - eps, 1 - eps / 2], dtype=dtype, requires_grad=True)
    widened(cos, torch.tensor(0.5, dtype=dtype)).sum().backward()
    assert cos.grad.isfinite().all()
    # Under the floor of the sine only the cosine has a derivative.
    assert cos.grad[0].item() == pytest.approx(torch.tensor(0.5).cos().item(), abs=1e-6)
    theirs = cos.detach().clamp(-1, 1).requires_grad_()
    naive(theirs, 0.5).sum().backward()
    assert not theirs.grad.isfinite().all()


def test_a_class_that_starts_on_its_only_row_trains():
    spec = ArcFace()
    layer = spec.build(4, 2, generator())
    x = torch.eye(4)[:2]
    with torch.no_grad():
        layer.weight.copy_(x.unsqueeze(1))
    logits = spec.margined(layer(x), torch.tensor([0, 1]), torch.tensor([1, 1]), layer.scale, 1.0)
    cross_entropy(logits, torch.tensor([0, 1])).backward()
    assert layer.weight.grad.isfinite().all()


def test_without_margin_nothing_changes():
    logits = torch.randn(50, 3, generator=generator()) * 10
    own = torch.arange(50) % 3
    for spec, progress in ((ArcFace(margin=0.0), 1.0), (ArcFace(), 0.0)):
        assert torch.equal(spec.margined(logits, own, COUNTS, 16.4, progress), logits)


def test_the_margin_warms_up():
    spec = ArcFace(margin=0.4, warmup=0.2)
    half = spec.margined(C, OWN, COUNTS, 1.0, 0.1)
    assert torch.allclose(half, ArcFace(margin=0.2).margined(C, OWN, COUNTS, 1.0, 1.0), atol=1e-12)


def test_rare_classes_can_get_more():
    cos = torch.full((3, 3), 0.5, dtype=torch.float64)
    own = torch.arange(3)
    found = ArcFace(margin=0.5, tail_exponent=0.25).margined(cos, own, COUNTS, 1.0, 1.0).diagonal()
    wanted = [naive(cos[0, 0], m).item() for m in (0.1623339577, 0.2886751346, 0.5)]
    assert found.tolist() == pytest.approx(wanted, abs=1e-9)


def test_float32_stays_float32():
    spec = ArcFace()
    assert spec.margined(C.float(), OWN, COUNTS, torch.tensor(30.0, dtype=torch.float64), 1.0).dtype == torch.float32


def test_a_stack_equals_a_loop():
    logits = torch.randn(3, 8, 3, dtype=torch.float64, generator=generator())
    own = torch.arange(8) % 3
    numbers = torch.tensor([[0.1, 10, 0.1, 0.0], [0.3, 20, 0.5, 0.25], [0.5, 30, 0.9, 1]], dtype=torch.float64)

    def margined(logits, margin, scale, warmup, exponent):
        swept = {"margin": margin, "warmup": warmup, "tail_exponent": exponent}
        return ArcFace().model_copy(update=swept).margined(logits * scale, own, COUNTS, scale, 0.4)

    stacked = vmap(margined)(logits, *numbers.T)
    looped = torch.stack([margined(z, *row.tolist()) for z, row in zip(logits, numbers, strict=True)])
    assert torch.allclose(stacked, looped, atol=1e-12, rtol=0)


def test_only_classes_with_enough_rows_get_sub_centres():
    spec = ArcFace(centers=3, init="class_means")
    layer = spec.build(5, 3, generator())
    labels = torch.tensor([0] * 6 + [1] * 5)
    rows = Rows(torch.randn(11, 5, generator=generator(1)), labels, torch.ones(11, dtype=torch.float64), 3)
    spec.start(layer, rows, generator(2))
    assert layer.used.tolist() == [[True] * 3, [True, False, False], [True, False, False]]
    again = copy.deepcopy(spec).build(5, 3, generator(7))
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(rows.x), layer(rows.x))
