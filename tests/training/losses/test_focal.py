import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot
from torchvision.ops import sigmoid_focal_loss

from frostbench.training.data.part import Data, Part
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.losses.class_weights import EffectiveWeight
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.focal import Focal, SigmoidFocal
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.run import RunSpec

Z = torch.tensor([[1.0, 0.5, -0.2]], dtype=torch.float64)
LAST = Targets(torch.tensor([2]))
WEIGHT = EffectiveWeight(beta=0.999)(torch.tensor([900, 90, 10]))[2].item()
LOGITS = 3 * torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
SPREAD = torch.rand(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(0)
SOFT = Targets(torch.arange(20) % 4, 0.3, SPREAD)

LAST_OF_20 = Targets(torch.full((20,), 3))


def seen(logits):
    return Scores(logits, logits, logits.log_softmax(-1))


def test_the_mean_under_targets_is_that_under_their_dense_form():
    for targets in (
        LAST_OF_20,
        SOFT,
        Targets(SOFT.label_index, 0.1),
        Targets(SOFT.label_index, torch.tensor(0.2).double(), SPREAD),
    ):
        wanted = (targets.dense(LOGITS) * LOGITS).sum(1)
        assert torch.allclose(targets.mean(LOGITS), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("gamma", "wanted"), [(0, 1.8459113654), (1, 1.5544763544), (2, 1.3090535015)])
def test_focal_matches_the_vectors(gamma, wanted):
    assert Focal(gamma=gamma)(seen(Z), LAST).item() == pytest.approx(wanted, abs=1e-9)


def test_class_weights_stand_outside_the_focal_loss():
    """With p from the weighted loss, as some code has it, this sample would cost 4.8170881461."""
    assert WEIGHT * Focal()(seen(Z), LAST).item() == pytest.approx(3.4680596256, abs=1e-9)


def test_sigmoid_focal_matches_the_vectors():
    assert SigmoidFocal()(seen(Z), LAST).item() == pytest.approx(1.3205711917, abs=1e-9)
    assert SigmoidFocal(alpha=0.25)(seen(Z), LAST).item() / 2 == pytest.approx(0.8697827501, abs=1e-9)
    assert WEIGHT * SigmoidFocal()(seen(Z), LAST).item() == pytest.approx(3.4985733032, abs=1e-9)


def test_at_gamma_zero_they_are_cross_entropy():
    assert torch.allclose(Focal(gamma=0)(seen(LOGITS), SOFT), CrossEntropy()(seen(LOGITS), SOFT), rtol=0, atol=1e-12)
    theirs = binary_cross_entropy_with_logits(LOGITS, SOFT.dense(LOGITS), reduction="none").sum(1)
    assert torch.allclose(SigmoidFocal(gamma=0)(seen(LOGITS), SOFT), theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 3.5])
def test_sigmoid_focal_is_twice_that_of_torchvision(gamma):
    hard = one_hot(torch.arange(20) % 4, 4).double()
    theirs = sigmoid_focal_loss(LOGITS, hard, alpha=0.3, gamma=gamma).sum(1)
    ours = SigmoidFocal(alpha=0.3, gamma=gamma)(seen(LOGITS), Targets(torch.arange(20) % 4))
    assert torch.allclose(ours, 2 * theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "loss", [Focal(gamma=g) for g in (0.0, 0.5, 1.0, 2.0)] + [SigmoidFocal(), SigmoidFocal(gamma=0.5)]
)
@pytest.mark.parametrize("logits", [[1e4, 0, 0], [-1e4, 0, 0], [200, -200, 0], [40, 0, 0], [0, 0, 0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_stay_finite(loss, logits, dtype):
    z = torch.tensor([logits], dtype=dtype, requires_grad=True)
    value = loss(seen(z), Targets(torch.tensor([0])))
    value.sum().backward()
    assert value.isfinite().all()
    assert (value >= 0).all()
    assert z.grad.isfinite().all()
    assert value.dtype == dtype


def test_the_gradient_is_that_of_finite_differences():
    z = LOGITS[:3].clone().requires_grad_()
    for loss in (Focal(gamma=0.5), Focal(gamma=2), SigmoidFocal(gamma=1.5, alpha=0.3)):
        assert torch.autograd.gradcheck(
            lambda v, loss=loss: loss(seen(v), Targets(SOFT.label_index[:3], 0.3, SPREAD)), z
        )


@pytest.mark.parametrize("loss", [Focal(), SigmoidFocal()])
def test_heads_with_their_own_gamma_equal_a_loop(loss):
    numbers = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    z = torch.stack([LOGITS, LOGITS.flip(0), 2 * LOGITS])

    def one(logits, number):
        return loss.model_copy(update={"gamma": number})(seen(logits), SOFT).mean()

    gradients, values = torch.func.vmap(torch.func.grad_and_value(one))(z, numbers)
    for k, number in enumerate(numbers.tolist()):
        gradient, value = torch.func.grad_and_value(one)(z[k], number)
        assert values[k].item() == pytest.approx(value.item(), abs=1e-12)
        assert torch.allclose(gradients[k], gradient, rtol=0, atol=1e-12)


def test_sigmoids_start_at_one_over_the_classes_that_have_rows():
    part = Part({"x": torch.randn(9, 4, generator=torch.Generator().manual_seed(0))}, torch.arange(9) % 3)
    data = Data(part, part, part, tuple("abcd"))

    def biases(kind):
        run = RunSpec.model_validate({"train": {"loss": {"point": {"kind": kind}}}})
        return run_contexts([0], [run], data)[0].head.classifier.bias.detach()

    torch.testing.assert_close(biases("sigmoid_focal").sigmoid(), torch.full((4,), 1 / 3))
    assert len(set(biases("focal").tolist())) == 4
