import pytest
import torch

from frostbench.heads.bodies.body import Blocks, Identity, Mlp
from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.preprocess import Standardise


def only_norm_and_gelu(order):
    """A block whose linear layer is the identity."""
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4))
        layer.bias.zero_()
    return Blocks([layer], order, 0.0)


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("gelu_ln", [-0.9751273746, -0.7859854994, 0.2170290182, 1.5440838558]),
        ("ln_gelu", [-0.1205554921, -0.146399735, 0.3008120717, 1.2210799279]),
    ],
)
def test_both_orders_match_the_vectors(order, wanted):
    found = only_norm_and_gelu(order)(torch.tensor([[-1.0, 0, 1, 2]]))
    assert found[0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_dropout_keeps_the_mean_and_its_factors_come_from_the_generator():
    body = Mlp(hidden=(4000, 3000), dropout=0.25).build(4, torch.Generator().manual_seed(0))
    factors = body.draw(8, torch.Generator().manual_seed(2), torch.float64)
    assert [f.shape for f in factors] == [(8, 4000), (8, 3000)]
    for factor in factors:
        gone = factor == 0
        assert gone.float().mean().item() == pytest.approx(0.25, abs=0.01)
        assert (factor[~gone] - 4 / 3).abs().max() < 1e-15
    again = body.draw(8, torch.Generator().manual_seed(2), torch.float64)
    assert all(torch.equal(a, b) for a, b in zip(factors, again, strict=True))


def test_dropout_acts_on_the_output_of_each_block_and_in_training_only():
    body = Mlp(hidden=(6, 5), dropout=0.25).build(4, torch.Generator().manual_seed(0))
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    first, second = body.draw(8, torch.Generator().manual_seed(2), torch.float32)
    wanted = body(body(x, end=1) * first, start=1) * second
    assert torch.allclose(body(x, (first, second)), wanted, atol=1e-6)
    assert torch.equal(body(x), body(x, (torch.ones(8, 6), torch.ones(8, 5))))


@pytest.mark.parametrize("spec", [Mlp(hidden=(6,), dropout=0), Identity()])
def test_without_dropout_nothing_is_drawn(spec):
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert spec.build(4, torch.Generator()).draw(8, generator, torch.float32) == ()
    assert torch.equal(generator.get_state(), before)


def test_initialisation_is_that_of_torch_and_comes_from_the_generator():
    torch.manual_seed(5)
    theirs = torch.nn.Linear(900, 300).weight
    ours = linear_layer(900, 300, torch.Generator().manual_seed(5)).weight
    assert ours.abs().max().item() == pytest.approx(1 / 30, rel=1e-3)
    assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.01)
    assert torch.equal(ours, linear_layer(900, 300, torch.Generator().manual_seed(5)).weight)


def test_standardisation_matches_the_vector():
    x = torch.tensor([[1.0, 10], [3, 10], [5, 10]])
    found = Standardise(center=True, std=True).build(x)(x)
    assert found.flatten().tolist() == pytest.approx([-1.2247448714, 0, 0, 0, 1.2247448714, 0], abs=1e-6)
    assert torch.allclose(Standardise().build(x)(x), x * 8**0.5 / (8 / 3) ** 0.5)
