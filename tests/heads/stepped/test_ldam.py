import pytest
import torch
from torch.func import vmap
from torch.nn.functional import cross_entropy

from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.ldam import Ldam

C = torch.tensor([[0.6, 0.5, 0.4]], dtype=torch.float64)
COUNTS = torch.tensor([900, 90, 10])


@pytest.mark.parametrize(("own", "wanted"), [(2, 21.0485873523), (0, 2.0555915338)])
def test_the_loss_matches_the_vectors(own, wanted):
    own = torch.tensor([own])
    found = cross_entropy(Ldam().margined(30 * C, own, COUNTS, 30.0, 1.0), own)
    assert found.item() == pytest.approx(wanted, abs=1e-9)


def test_without_margin_nothing_changes():
    found = Ldam(max_margin=0).margined(30 * C, torch.tensor([0]), COUNTS, 30.0, 1.0)
    assert torch.equal(found, 30 * C)
    assert cross_entropy(found, torch.tensor([0])).item() == pytest.approx(0.0509457635, abs=1e-9)


def test_the_head_has_the_scale_of_the_paper():
    assert Ldam().build(4, 3, torch.Generator()).scale.item() == 30


def test_a_stack_equals_a_loop():
    logits = torch.randn(3, 8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    numbers = torch.tensor([[0.1, 10], [0.2, 20], [0.5, 30]], dtype=torch.float64)

    def margined(logits, margin, scale):
        spec = Ldam().model_copy(update={"max_margin": margin})
        return spec.margined(logits * scale, torch.arange(8) % 3, COUNTS, scale, 0.4)

    stacked = vmap(margined)(logits, *numbers.T)
    looped = torch.stack([margined(z, *row.tolist()) for z, row in zip(logits, numbers, strict=True)])
    assert torch.allclose(stacked, looped, atol=1e-12, rtol=0)


def test_state_round_trip_and_start():
    spec = Ldam(init="class_means")
    x = torch.eye(4)[:3]
    layer = spec.build(4, 3, torch.Generator().manual_seed(0))
    rows = Rows(x, torch.arange(3), torch.ones(3, dtype=torch.float64), 3)
    spec.start(layer, rows, torch.Generator().manual_seed(1))
    assert layer(x).argmax(1).tolist() == [0, 1, 2]
    again = spec.build(4, 3, torch.Generator())
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x), layer(x))
