"""Second stages with gradient steps."""

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
        "second.epoch fixes the epoch, so second.metric and second.max_head_loss have no effect: remove these two, or "
        "second.epoch",
    ),
    Rule(
        "no effect",
        lambda run: run.second.draws_alike and run.is_shifted,
        "a second stage on balanced classes leaves a uniform prior in the logits, so posthoc.adjustment has no effect: "
        "use one of the two",
    ),
)


class SteppedStage(SecondStage):
    """A second stage that trains the classifier, or parameters on its logits, with plain cross entropy.

    The body is in evaluation mode, and vectors are neither augmented nor mixed. The optimiser is AdamW with a cosine
    schedule; batch size, minimum steps, warm-up and early stopping are those of the first stage.
    """

    takes_steps: ClassVar[bool] = True
    reads_early_stop: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = STEPPED_RULES
    kind: str
    epochs: Passes
    """Number of epochs of the second stage; the minimum of steps may raise it."""
    lr: Rate
    """Peak learning rate of the second stage."""
    sampler: Sampler = Field(default="class_balanced", title="Second stage: sampling of classes")
    """Class sampling: equal, by the square root of class size, by class size, or progressive."""
    epoch: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        json_schema_extra=empty("chosen by the metric"),
        title="Second stage: fixed epoch",
    )
    """Epoch of this stage to stop at and keep, as cross-validation chose it; null lets the metric choose."""
    metric: SecondMetric = Field(default="as_first", title="Second stage: metric")
    """Validation metric that chooses the epoch of this stage; as_first uses that of the first stage."""
    max_head_loss: float | None = Field(
        default=None,
        ge=0,
        le=1,
        json_schema_extra=empty("no limit"),
        title="Second stage: limit on lost many-shot recall",
    )
    """Largest drop in recall, from 0 to 1, allowed on classes with over 100 training rows; null sets no limit.

    If no epoch meets it, the head of the first stage is the result.
    """

    @property
    def starts_anew(self) -> bool:
        """Whether a classifier with new initial weights replaces the trained one."""
        return False

    def front(self, head: Head) -> nn.Module:
        """Return the frozen part of a head, whose output is the training input."""
        raise NotImplementedError

    def core(self, head: Head, classes: int) -> Core:
        """Return the part to train on the output of `front`."""
        raise NotImplementedError

    def fold(self, head: Head, core: Core) -> None:
        """Write the trained parameters into a head, if they are not part of it already."""

    @property
    def optim(self) -> AdamW:
        """The optimiser of the trained part."""
        return AdamW(lr=self.lr)

    def schedule(self, first: Schedule) -> Schedule:
        """Return the schedule, given that of the first stage."""
        return first.model_copy(update={"epochs": self.epochs, "shape": "cosine"})

    def stage_spec(self, first: StageSpec) -> StageSpec:
        """Return the spec of this stage, plain cross entropy with a cosine schedule, given that of the first stage."""
        draw = {"draw": self.sampler}
        stop = {"epoch": self.epoch, "metric": self.metric_after(first.early_stop.metric)}
        return StageSpec(
            optim=self.optim,
            schedule=self.schedule(first.schedule),
            early_stop=first.early_stop.model_copy(update=stop),
            # The shuffle buffer of the first stage is kept, if it has one.
            sampler=(first.sampler if isinstance(first.sampler, Shuffled) else Shuffled()).model_copy(update=draw),
        )

    def statistics(self, statistics: ClassStatistics) -> ClassStatistics:
        """Return the class statistics of the training rows under its sampler, at the end of the stage."""
        return statistics.under_sampler(shares_of(Shuffled(draw=self.sampler), statistics.counts, 1.0)).unweighted()

    def floor(self, recall: float | None) -> float | None:
        """Return the lowest allowed recall of frequent classes, given that of the first stage; None for no limit."""
        return None if self.max_head_loss is None or recall is None else recall - self.max_head_loss

    @property
    def given_epoch(self) -> int | None:
        """The fixed last epoch; None if the metric chooses it."""
        return self.epoch

    @property
    def is_judged(self) -> bool:
        """Whether one of its epochs is chosen on the validation rows."""
        return self.epoch is None

    def metric_after(self, first: StopMetric) -> StopMetric:
        """Return the metric that chooses its epoch, given the metric of the first stage."""
        return first if self.metric == "as_first" else self.metric

    def check_judged(self, metric: StopMetric, perfect: Mapping[str, float | None]) -> None:
        """Check that a metric can evaluate its epochs on the validation rows.

        Raises:
            ValueError: the metric counts no class, or max_head_loss is set and there are no frequent classes.
        """
        if metric != "last":
            to_raise(dict(perfect), metric)
        if self.max_head_loss is not None and perfect["recall_many"] is None:
            raise ValueError(
                f"second.max_head_loss limits the recall loss of classes with more than {MANY_ABOVE} training rows, "
                "but no such class has validation rows. Remove it, or use a split that gives such classes some."
            )

    @property
    def draws_alike(self) -> bool:
        """Whether all its steps draw classes equally often."""
        return self.sampler == "class_balanced"

    @property
    def refuses_folds(self) -> str:
        """Error message if it cannot be cross-validated, otherwise empty."""
        if self.max_head_loss is None:
            return ""
        return (
            "second.max_head_loss needs the validation rows of a split without folds, but this split has folds, whose "
            "heads lose different amounts of recall. Remove it, or make a split without folds."
        )

    def paced(self, first: Schedule, rows: int) -> Self:
        """Return the stage with its number of epochs set for this many rows, given the first stage's schedule."""
        return self.model_copy(update={"epochs": self.epochs_for(first, rows)})

    def shortened(self) -> Self:
        """Return the stage cut to one epoch."""
        return self.model_copy(update={"epochs": 1, "epoch": None, "metric": "last"})

    def watched(self) -> Self:
        """Return the stage without early stopping or choice of an epoch."""
        return self.model_copy(update={"epoch": None, "metric": "last"})

    def kept_at(self, epoch: int) -> SecondStage:
        """Return the stage ended at an epoch, or no stage for epoch 0, where no epoch was good enough."""
        return self.model_copy(update={"epoch": epoch}) if epoch else NoSecondStage()
