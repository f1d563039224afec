import pytest
import torch
from pydantic import TypeAdapter

from frostbench.heads.plugin_files import PluginError, run_plugin
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.external import ExternalLoss
from frostbench.training.losses.scores import Scores, Targets

LOSS = """
from typing import ClassVar, Literal
import torch
from pydantic import Field
from frostbench.heads.spec import Spec

class Power(Spec):
    kind: Literal["power"] = "power"
    gamma: float = Field(default=2.0, ge=0, le=10)

    def __call__(self, scores, targets):
        return -(targets * (1 - scores.log_p.exp()) ** self.gamma * scores.log_p).sum(-1)

class Mean(Power):
    def __call__(self, scores, targets):
        return -(targets * scores.log_p).mean()

class Branching(Power):
    def __call__(self, scores, targets):
        loss = -(targets * scores.log_p).sum(-1)
        return loss if loss.sum() > 0 else 0 * loss

class Looped(Branching):
    stacks: ClassVar[bool] = False

class Builder(Spec):
    def build(self, dim, classes, generator):
        return torch.nn.Linear(dim, classes)
"""
LOGITS = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TARGETS = Targets(torch.arange(6) % 4)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LOSS)
    run_plugin(path)
    return str(path)


def seen(logits):
    return Scores(logits, logits, logits.log_softmax(-1))


def test_it_is_the_plugin_s_loss(file):
    """The plugin computes the focal loss, (1 - p)^gamma CE."""
    z = torch.tensor([[1.0, 0.5, -0.2]], dtype=torch.float64)
    last = Targets(torch.tensor([2]))
    for gamma, wanted in ((0, 1.8459113654), (2, 1.3090535015)):
        loss = ExternalLoss(file=file, name="Power", options={"gamma": gamma})
        assert loss(seen(z), last).item() == pytest.approx(wanted, abs=1e-9)
    neutral = ExternalLoss(file=file, name="Power", options={"gamma": 0})
    assert torch.allclose(neutral(seen(LOGITS), TARGETS), CrossEntropy()(seen(LOGITS), TARGETS), rtol=0, atol=1e-12)


def test_heads_of_a_stack_equal_a_loop(file):
    loss = ExternalLoss(file=file, name="Power")
    z = torch.stack([LOGITS, LOGITS.flip(0), 2 * LOGITS])
    one = torch.func.grad(lambda own: loss(seen(own), TARGETS).mean())
    assert torch.allclose(torch.func.vmap(one)(z), torch.stack([one(own) for own in z]), rtol=0, atol=1e-12)


def test_it_travels_through_json_in_a_union(file):
    union = TypeAdapter(CrossEntropy | ExternalLoss)
    loss = ExternalLoss(file=file, name="Power", options={"gamma": 3})
    assert union.validate_json(union.dump_json(loss)) == loss


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"file": "gone.py"}, "got 'gone.py', which is missing"),
        ({"options": {"gamma": -1}}, "gamma: Input should be greater than or equal to 0, got -1"),
        ({"options": {"gama": 1}}, r"gama: there is no such option here.*The options of Power in .* are \['gamma'\]"),
        ({"name": "Builder"}, "must have the method __call__ or part here, but Builder of .* does not"),
        ({"name": "Mean"}, r"one value per sample, \[N\], but Mean returns \[\] for 3 samples"),
        ({"name": "Branching"}, "must run under torch.func.vmap, but Branching fails with "),
    ],
)
def test_mistakes_are_reported(file, fields, message):
    spec = ExternalLoss(**{"file": file, "name": "Power"} | fields)
    with pytest.raises(PluginError, match=f"(?s){message}"):
        spec.checked()


def test_a_class_may_say_that_it_does_not_stack(file):
    looped = ExternalLoss(file=file, name="Looped")
    assert not looped.stacks
    assert looped.checked().model_dump() == {"kind": "power", "gamma": 2.0}
    assert ExternalLoss(file=file, name="Power").stacks
