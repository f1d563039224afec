"""What follows the first stage of training: nothing, or the classifier trained anew."""

from typing import Annotated, Literal

from pydantic import Field

from heads.spec import Spec
from training.optim import AdamW, Schedule
from training.samplers import Sampler


class NoSecondStage(Spec):
    """The head of the first stage is the result."""

    kind: Literal["none"] = "none"


class Crt(Spec):
    """Train the classifier alone once more on balanced classes, by plain cross entropy, with the body frozen.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, section 4.1 (cRT).
    Frequent classes lose some of what rare classes win. The body is in evaluation mode and vectors are not augmented
    or mixed; the optimiser is AdamW along a cosine, and batch size, least steps, warm-up and early stopping are those
    of the first stage.
    """

    kind: Literal["crt"] = "crt"
    init: Literal["fresh", "keep"] = "fresh"
    """Whether the classifier starts anew or from the first stage."""
    epochs: int = Field(default=10, ge=1, le=100_000)
    """Passes of the second stage, or more where train.schedule.min_steps asks for more."""
    lr: float = Field(default=1e-3, gt=0, le=10)
    """Peak learning rate of the second stage."""
    sampler: Sampler = "class_balanced"
    """How often a class is drawn: alike for all, by the square root of its size, or by its size."""

    @property
    def optim(self) -> AdamW:
        """The optimiser of the classifier."""
        return AdamW(lr=self.lr)

    def schedule(self, first: Schedule) -> Schedule:
        """The schedule after a first stage with another."""
        return first.model_copy(update={"epochs": self.epochs, "shape": "cosine"})


SecondStageSpec = Annotated[NoSecondStage | Crt, Field(discriminator="kind")]
