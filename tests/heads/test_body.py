import pytest
import torch

from heads.body import Blocks, Mlp, linear_layer
from heads.preprocess import Standardise


def only_norm_and_gelu(order):
    """A block whose linear layer changes nothing."""
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


def test_dropout_keeps_the_mean_and_acts_in_training_only():
    body = Mlp(hidden=(4000,), dropout=0.25).build(4, torch.Generator().manual_seed(0))
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    plain = body.eval()(x)
    dropped = body.train()(x, torch.Generator().manual_seed(2))
    gone = dropped == 0
    assert gone.float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert torch.allclose(dropped[~gone], plain[~gone] / 0.75, atol=1e-5)
    assert torch.equal(dropped, body(x, torch.Generator().manual_seed(2)))


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
    assert torch.equal(Standardise().build(x)(x), x)
