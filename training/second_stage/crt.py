"""cRT: classifier re-training on balanced classes."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from frostbench.heads.bodies.body import Pass
from frostbench.heads.head import Body, Core, Head
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.rule import Rule
from frostbench.training.second_stage.stepped import STEPPED_RULES, Passes, Rate, SteppedStage

if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def _calibrates(run: "RunSpec") -> bool:
    """Whether the first stage changes the point loss from plain cross entropy on hard labels, often for calibration."""
    loss = run.train.loss
    is_changed = not isinstance(loss.point, CrossEntropy) or any(m.shapes_point for m in loss.active.values())
    return loss.point_weight > 0 and is_changed


class Crt(SteppedStage):
    """Re-train only the classifier, with cross entropy on balanced classes and the body frozen.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, section 4.1 (cRT).
    Rare classes gain recall at some cost to frequent ones. The body is in evaluation mode, and vectors are neither
    augmented nor mixed. The optimiser is AdamW with a cosine schedule; batch size, minimum steps, warm-up and early
    stopping are those of the first stage.
    """

    trains_classifier: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        *STEPPED_RULES,
        Rule(
            "warn",
            lambda run: isinstance(run.second, Crt) and run.second.starts_anew and run.is_bare,
            "a head without a body keeps nothing of its first stage under crt with a fresh classifier: use "
            "head.body.kind=mlp, or second.init=keep",
        ),
        Rule(
            "warn",
            lambda run: isinstance(run.second, Crt) and _calibrates(run),
            "crt trains the classifier with plain cross entropy, so train.loss.point, smoothing and the like affect "
            "only the first stage: remove them, or set second.kind=none",
        ),
    )
    kind: Literal["crt"] = "crt"
    init: Literal["fresh", "keep"] = Field(default="fresh", title="Second stage: initial classifier")
    """Whether the classifier starts from new weights (fresh) or from the first stage (keep)."""
    epochs: Passes = Field(default=10, title="Second stage: epochs")
    """Number of epochs of the second stage; the minimum of steps may raise it."""
    lr: Rate = Field(default=1e-3, title="Second stage: learning rate")
    """Peak learning rate of the second stage."""

    @property
    def starts_anew(self) -> bool:
        """Whether a classifier with new initial weights replaces the trained one."""
        return self.init == "fresh"

    def front(self, head: Head) -> Body:
        """Return the body of a head."""
        return head.body

    def core(self, head: Head, classes: int) -> Core:
        """Return the classifier of a head."""
        return Core(Pass(head.body.width), head.classifier)

    def width(self, hidden: int, classes: int) -> int:
        """Return the width of the classifier's input."""
        return hidden
