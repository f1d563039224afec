"""cRT: the classifier is trained once more, on balanced classes."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from frostbench.heads.bodies.body import Pass
from frostbench.heads.head import Body, Core, Head
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.rule import Rule
from frostbench.training.run_properties import is_bare
from frostbench.training.second_stage.stepped import STEPPED_RULES, Passes, Rate, SteppedStage

if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def _calibrates(run: "RunSpec") -> bool:
    """Whether the first stage minimises more, or else, than plain cross entropy on the labels as they are."""
    loss = run.train.loss
    is_changed = not isinstance(loss.point, CrossEntropy) or any(one.shapes_point for one in loss.active.values())
    return loss.point_weight > 0 and is_changed


class Crt(SteppedStage):
    """Train the classifier alone once more on balanced classes, by cross entropy, with the body frozen.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, section 4.1 (cRT).
    Frequent classes lose some of what rare classes win. The body is in evaluation mode and vectors are not augmented
    or mixed; the optimiser is AdamW along a cosine, and batch size, least steps, warm-up and early stopping are those
    of the first stage.
    """

    trains_classifier: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        *STEPPED_RULES,
        Rule(
            "warn",
            lambda run: isinstance(run.second, Crt) and run.second.starts_anew and is_bare(run),
            "a head without a body keeps nothing of its first stage under crt with a fresh classifier: use "
            "head.body.kind=mlp, or second.init=keep",
        ),
        Rule(
            "warn",
            lambda run: isinstance(run.second, Crt) and _calibrates(run),
            "crt trains the classifier by plain cross entropy, so train.loss.point, smoothing and what else shapes it "
            "act on the first stage alone: leave them out, or set second.kind=none",
        ),
    )
    kind: Literal["crt"] = "crt"
    init: Literal["fresh", "keep"] = Field(default="fresh", title="Second stage: initial classifier")
    """Whether the classifier starts anew or from the first stage."""
    epochs: Passes = Field(default=10, title="Second stage: epochs")
    """Passes of the second stage, or more where train.schedule.min_steps asks for more."""
    lr: Rate = Field(default=1e-3, title="Second stage: learning rate")
    """Peak learning rate of the second stage."""

    @property
    def starts_anew(self) -> bool:
        """Whether a classifier with first weights takes the place of the trained one."""
        return self.init == "fresh"

    def front(self, head: Head) -> Body:
        """The body of a head."""
        return head.body

    def core(self, head: Head, classes: int) -> Core:
        """The classifier of a head."""
        return Core(Pass(head.body.width), head.classifier)

    def width(self, hidden: int, classes: int) -> int:
        """Numbers of each row that the classifier reads."""
        return hidden
