import pytest
import torch
from torch.func import vmap
from torch.nn.functional import cross_entropy

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.arcface import ArcFace
from frostbench.heads.stepped.cosface import CosFace

C = torch.tensor([[0.8, 0.3, -0.2]], dtype=torch.float64)
OWN = torch.tensor([0])
COUNTS = torch.tensor([900, 90, 10])


def test_the_margin_matches_the_vector():
    logits = CosFace(margin=0.35).margined(30 * C, OWN, COUNTS, 30.0, 1.0)
    assert (logits / 30)[0].tolist() == pytest.approx([0.45, 0.3, -0.2], abs=1e-12)
    assert cross_entropy(logits, OWN).item() == pytest.approx(0.0110477482, abs=1e-10)


def test_the_default_margin_equals_that_of_arcface_at_the_stated_cosine():
    cos = torch.tensor([[0.7, 0.0]], dtype=torch.float64)
    costs = [(cos - s.margined(cos, OWN, torch.tensor([1, 1]), 1.0, 1.0))[0, 0].item() for s in (CosFace(), ArcFace())]
    assert costs[0] == pytest.approx(costs[1], abs=0.01)


def test_without_margin_nothing_changes():
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 10
    for spec, progress in ((CosFace(margin=0.0), 1.0), (CosFace(), 0.0)):
        assert torch.equal(spec.margined(logits, torch.arange(50) % 3, COUNTS, 16.4, progress), logits)


def test_the_margin_warms_up():
    half = CosFace(margin=0.3, warmup=0.2).margined(C, OWN, COUNTS, 1.0, 0.1)
    assert half[0].tolist() == pytest.approx([0.65, 0.3, -0.2])


def test_a_stack_equals_a_loop():
    logits = torch.randn(3, 8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    numbers = torch.tensor([[0.1, 10, 0.0], [0.2, 20, 0.5], [0.35, 30, 0.8]], dtype=torch.float64)

    def margined(logits, margin, scale, warmup):
        spec = CosFace().model_copy(update={"margin": margin, "warmup": warmup})
        return spec.margined(logits * scale, torch.arange(8) % 3, COUNTS, scale, 0.4)

    stacked = vmap(margined)(logits, *numbers.T)
    looped = torch.stack([margined(z, *row.tolist()) for z, row in zip(logits, numbers, strict=True)])
    assert torch.allclose(stacked, looped, atol=1e-12, rtol=0)


def test_state_round_trip_and_start():
    spec = CosFace(init="class_means")
    x = torch.eye(4)[:3]
    layer = spec.build(4, 3, torch.Generator().manual_seed(0))
    rows = Rows(x, torch.arange(3), torch.ones(3, dtype=torch.float64), 3)
    spec.start(layer, rows, torch.Generator().manual_seed(1))
    assert layer(x).argmax(1).tolist() == [0, 1, 2]
    again = spec.build(4, 3, torch.Generator())
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x), layer(x))
