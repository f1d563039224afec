"""What may follow the first stage of training."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from frostbench.heads.closed_form.nearest_mean import NearestMean
from frostbench.heads.head import ClosedSpec
from frostbench.heads.spec import SWEPT, Spec, Tier, empty
from frostbench.training.sampling.samplers import Sampler
from frostbench.training.spec.optim import AdamW, Schedule
from frostbench.training.spec.stage import StopMetric

SecondMetric = Literal["as_first", "auto", "macro_f1_fg", "balanced_accuracy", "accuracy", "recall_few", "nll", "last"]


class NoSecondStage(Spec):
    """The head of the first stage is the result."""

    kind: Literal["none"] = "none"


class Crt(Spec):
    """Train the classifier alone once more on balanced classes, by cross entropy, with the body frozen.

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
    lr: float = Field(default=1e-3, gt=0, le=10, json_schema_extra=SWEPT)
    """Peak learning rate of the second stage."""
    sampler: Sampler = "class_balanced"
    """How often a class is drawn: alike for all, by the square root of its size, or by its size."""
    epoch: int | None = Field(default=None, ge=1, le=10_000_000, json_schema_extra=empty("judged by the metric"))
    """Epoch of this stage to end at and keep, as cross-validation found it; null judges by the metric."""
    metric: SecondMetric = "as_first"
    """Metric of the selection rows by which an epoch of this stage is kept; as_first takes train.early_stop.metric."""
    max_head_loss: float | None = Field(default=None, ge=0, le=1, json_schema_extra=empty("no limit"))
    """Most recall of classes of over 100 training rows that this stage may lose, as a share; null sets no limit.

    Where no epoch keeps to it, the head of the first stage is the result.
    """

    @property
    def optim(self) -> AdamW:
        """The optimiser of the classifier."""
        return AdamW(lr=self.lr)

    def schedule(self, first: Schedule) -> Schedule:
        """The schedule after a first stage with another."""
        return first.model_copy(update={"epochs": self.epochs, "shape": "cosine"})


class Lws(Spec):
    """Learn one factor for each class's logit on balanced classes, with all else frozen.

    Kang et al., ICLR 2020, section 4.3 (learnable weight scaling). The factors are positive, start at 1 and multiply
    W x + b; they are folded into the classifier. Optimiser and schedule are as in crt.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["lws"] = "lws"
    epochs: int = Field(default=5, ge=1, le=100_000)
    """Passes of the second stage, or more where train.schedule.min_steps asks for more."""
    lr: float = Field(default=1e-2, gt=0, le=10, json_schema_extra=SWEPT)
    """Peak learning rate of the factors' logarithms."""
    sampler: Sampler = "class_balanced"
    """How often a class is drawn: alike for all, by the square root of its size, or by its size."""
    epoch: int | None = Field(default=None, ge=1, le=10_000_000, json_schema_extra=empty("judged by the metric"))
    """Epoch of this stage to end at and keep, as cross-validation found it; null judges by the metric."""
    metric: SecondMetric = "as_first"
    """Metric of the selection rows by which an epoch of this stage is kept; as_first takes train.early_stop.metric."""
    max_head_loss: float | None = Field(default=None, ge=0, le=1, json_schema_extra=empty("no limit"))
    """Most recall of classes of over 100 training rows that this stage may lose, as a share; null sets no limit.

    Where no epoch keeps to it, the head of the first stage is the result.
    """

    @property
    def optim(self) -> AdamW:
        """The optimiser of the factors."""
        return AdamW(lr=self.lr, weight_decay=0)

    def schedule(self, first: Schedule) -> Schedule:
        """The schedule after a first stage with another."""
        return first.model_copy(update={"epochs": self.epochs, "shape": "cosine"})


class TauNorm(Spec):
    """Divide each class's weights by a power of their length, and drop the biases.

    Kang et al., ICLR 2020, section 4.2 (tau-normalised classifier): weights of frequent classes are longer.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["tau_norm"] = "tau_norm"
    tau: float | None = Field(default=None, ge=0, le=2, json_schema_extra=empty("the best of 0 to 2"))
    """The power; null takes, from 0 to 2 in steps of 0.1, the one with the best selection metric."""


class Refit(Spec):
    """Put a classifier without gradient steps in place of the trained one, on the output of the frozen body.

    With ncm it is the nearest class mean of Kang et al., ICLR 2020, section 4.1; with a contrastive loss before it, the
    two stages of Khosla et al., "Supervised contrastive learning", NeurIPS 2020.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["refit"] = "refit"
    classifier: ClosedSpec = NearestMean()
    """What takes the classifier's place."""


SecondStageSpec = Annotated[NoSecondStage | Crt | Lws | TauNorm | Refit, Field(discriminator="kind")]
SteppedSecond = Crt | Lws
"""Second stages of gradient steps."""


def metric_of(second: SteppedSecond, first: StopMetric) -> StopMetric:
    """The metric that judges the epochs of a second stage, after a first that was judged by another."""
    return first if second.metric == "as_first" else second.metric
