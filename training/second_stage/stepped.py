"""Second stages of gradient steps."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field
from torch import nn

from frostbench.heads.head import Core, Head
from frostbench.heads.spec import SWEPT, empty
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.metrics.classification import to_raise
from frostbench.training.metrics.counts import MANY_ABOVE
from frostbench.training.rule import Rule
from frostbench.training.run_properties import is_shifted
from frostbench.training.sampling.batches import Shuffled, shares_of
from frostbench.training.sampling.samplers import Sampler
from frostbench.training.second_stage.none import NoSecondStage
from frostbench.training.second_stage.protocol import SecondStage
from frostbench.training.spec.optim import AdamW, Schedule
from frostbench.training.spec.stage import StageSpec, StopMetric

SecondMetric = Literal["as_first", "auto", "macro_f1_fg", "balanced_accuracy", "accuracy", "recall_few", "nll", "last"]
Passes = Annotated[int, Field(ge=1, le=100_000)]
Rate = Annotated[float, Field(gt=0, le=10, json_schema_extra=SWEPT)]

STEPPED_RULES: tuple[Rule, ...] = (
    Rule(
        "no effect",
        lambda run: (
            isinstance(run.second, SteppedStage)
            and run.second.epoch is not None
            and (run.second.metric != "as_first" or run.second.max_head_loss is not None)
        ),
        "second.epoch is kept whatever the selection rows say, so second.metric and second.max_head_loss have no "
        "effect: leave them out, or leave second.epoch out",
    ),
    Rule(
        "no effect",
        lambda run: run.second.draws_alike and is_shifted(run),
        "a second stage on balanced classes leaves a uniform prior in the logits, so posthoc.adjustment has no effect: "
        "use one of the two",
    ),
)


class SteppedStage(SecondStage):
    """A second stage that trains the classifier, or something on its logits, by plain cross entropy.

    The body is in evaluation mode and vectors are not augmented or mixed; the optimiser is AdamW along a cosine, and
    batch size, least steps, warm-up and early stopping are those of the first stage.
    """

    takes_steps: ClassVar[bool] = True
    reads_early_stop: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = STEPPED_RULES
    kind: str
    epochs: Passes
    """Passes of the second stage, or more where train.schedule.min_steps asks for more."""
    lr: Rate
    """Peak learning rate of the second stage."""
    sampler: Sampler = Field(default="class_balanced", title="Second stage: sampling of classes")
    """Draws per class: alike for all, by the square root of its size, by its size, or progressive."""
    epoch: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        json_schema_extra=empty("judged by the metric"),
        title="Second stage: fixed epoch",
    )
    """Epoch of this stage to end at and keep, as cross-validation found it; null judges by the metric."""
    metric: SecondMetric = Field(default="as_first", title="Second stage: metric")
    """Metric of the selection rows by which an epoch of this stage is kept; as_first takes train.early_stop.metric."""
    max_head_loss: float | None = Field(
        default=None, ge=0, le=1, json_schema_extra=empty("no limit"), title="Second stage: limit on lost head recall"
    )
    """Most recall of classes of over 100 training rows that this stage may lose, as a share; null sets no limit.

    Where no epoch keeps to it, the head of the first stage is the result.
    """

    @property
    def starts_anew(self) -> bool:
        """Whether a classifier with first weights takes the place of the trained one."""
        return False

    def front(self, head: Head) -> nn.Module:
        """The frozen part of a head, on whose output the steps are taken."""
        raise NotImplementedError

    def core(self, head: Head, classes: int) -> Core:
        """The part that is trained, on the output of `front`."""
        raise NotImplementedError

    def fold(self, head: Head, core: Core) -> None:
        """Put what was trained into a head, where it is no part of it already."""

    @property
    def optim(self) -> AdamW:
        """The optimiser of what is trained."""
        return AdamW(lr=self.lr)

    def schedule(self, first: Schedule) -> Schedule:
        """The schedule after a first stage with another."""
        return first.model_copy(update={"epochs": self.epochs, "shape": "cosine"})

    def stage_spec(self, first: StageSpec) -> StageSpec:
        """The loss and the course of the stage after a first one: plain cross entropy along a cosine."""
        draw = {"draw": self.sampler}
        stop = {"epoch": self.epoch, "metric": self.metric_after(first.early_stop.metric)}
        return StageSpec(
            optim=self.optim,
            schedule=self.schedule(first.schedule),
            early_stop=first.early_stop.model_copy(update=stop),
            # Rows come through the buffer of the first stage, where it has one.
            sampler=(first.sampler if isinstance(first.sampler, Shuffled) else Shuffled()).model_copy(update=draw),
        )

    def statistics(self, statistics: ClassStatistics) -> ClassStatistics:
        """The statistics of the training rows as its sampler shows them, at its end."""
        return statistics.under_sampler(shares_of(Shuffled(draw=self.sampler), statistics.counts, 1.0)).unweighted()

    def floor(self, recall: float | None) -> float | None:
        """The least recall of frequent classes that it may leave of what the first stage had; None sets no limit."""
        return None if self.max_head_loss is None or recall is None else recall - self.max_head_loss

    @property
    def given_epoch(self) -> int | None:
        """The epoch to end at; None where epochs are judged."""
        return self.epoch

    @property
    def is_judged(self) -> bool:
        """Whether the selection rows choose one of its epochs."""
        return self.epoch is None

    def metric_after(self, first: StopMetric) -> StopMetric:
        """The metric that judges its epochs, after a first stage that was judged by another."""
        return first if self.metric == "as_first" else self.metric

    def check_judged(self, metric: StopMetric, found: Mapping[str, float | None]) -> None:
        """Refuse selection rows on which its epochs cannot be judged by a metric.

        Raises:
            ValueError: the metric counts no class, or the loss of frequent classes is limited and there are none.
        """
        if metric != "last":
            to_raise(dict(found), metric)
        if self.max_head_loss is not None and found["recall_many"] is None:
            raise ValueError(
                f"second.max_head_loss limits the loss of classes with more than {MANY_ABOVE} training rows, however: "
                "no such class has selection rows. Leave it out, or judge by second.metric=balanced_accuracy."
            )

    @property
    def draws_alike(self) -> bool:
        """Whether all classes are drawn alike, from the first step to the last."""
        return self.sampler == "class_balanced"

    @property
    def refuses_folds(self) -> str:
        """Why it cannot be cross-validated; empty where it can."""
        if self.max_head_loss is None:
            return ""
        return (
            "second.max_head_loss is judged on the selection rows of an ordinary split, however: it came with a split "
            "into folds, whose heads lose more or less each. Leave it out, or cut the split without folds."
        )

    def paced(self, first: Schedule, rows: int) -> Self:
        """The stage with as many epochs as it takes on that many rows."""
        return self.model_copy(update={"epochs": self.epochs_for(first, rows)})

    def shortened(self) -> Self:
        """The stage cut to one epoch."""
        return self.model_copy(update={"epochs": 1, "epoch": None, "metric": "last"})

    def watched(self) -> Self:
        """The stage run to its end, whatever the selection rows say."""
        return self.model_copy(update={"epoch": None, "metric": "last"})

    def kept_at(self, epoch: int) -> SecondStage:
        """The stage ended at an epoch; none at 0, where no epoch was good enough to keep."""
        return self.model_copy(update={"epoch": epoch}) if epoch else NoSecondStage()
