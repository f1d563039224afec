"""StageSpec: one stage of gradient steps."""

from typing import Literal

from pydantic import Field

from frostbench.heads.spec import SWEPT, Spec, empty
from frostbench.training.augment.features import FeatureAugment
from frostbench.training.augment.frofa import FrofaSpec, NoFrofa
from frostbench.training.augment.mixup import Mixup
from frostbench.training.losses.class_weights import DeferredSchedule, RampSchedule
from frostbench.training.losses.loss import LossSpec
from frostbench.training.sampling.batches import SamplerSpec, Shuffled
from frostbench.training.sampling.oversample import NoOversample, OversampleSpec
from frostbench.training.sampling.samplers import ClassBatches
from frostbench.training.spec.optim import AdamW, OptimSpec, Schedule

StopMetric = Literal["auto", "macro_f1_fg", "balanced_accuracy", "accuracy", "recall_few", "nll", "last"]


class EarlyStop(Spec):
    """Which epoch is kept, judged on the selection rows."""

    metric: StopMetric = Field(default="auto", title="Early stopping: metric")
    """Metric of the selection rows that decides, ties by NLL; auto: macro F1, or nll on under 50 rows a class.

    last keeps the last epoch and never stops early.
    """
    patience: int = Field(default=20, ge=1, le=100_000, title="Early stopping: patience (epochs)")
    """Epochs without a better value after which training ends, times as many as min_steps makes of the epochs.

    Counted from when the warm-up has ended and late weights and samplers act in full.
    """
    epoch: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        json_schema_extra=empty("judged by the metric"),
        title="Early stopping: fixed epoch",
    )
    """Epoch to end at and keep, as cross-validation found it; null judges by the metric."""


def metric_of_strengths(metric: StopMetric) -> StopMetric:
    """What strengths and powers are chosen by where epochs are by a metric that leaves it open."""
    return "macro_f1_fg" if metric in ("auto", "last") else metric


class StageSpec(Spec):
    """One stage of training: what is minimised, how, and for how long."""

    loss: LossSpec = Field(default=LossSpec(), title="Loss")
    """What is minimised."""
    oversample: OversampleSpec = Field(default=NoOversample(), title="Oversampling of small classes")
    """Synthetic rows for small classes, made before training."""
    views: Literal["samples", "together", "averaged"] = Field(default="samples", title="Several views of an image")
    """Several views of an image: each a row of its own, all in one batch (together), or their mean as one row."""
    sampler: SamplerSpec = Field(default=Shuffled(), title="Batch sampler")
    """Rule by which rows come together in a batch, and how often."""
    frofa: FrofaSpec = Field(default=NoFrofa(), title="Frozen-feature augmentation (FroFA)")
    """Image operations applied to cached vectors as if they were grey values."""
    augment: FeatureAugment = Field(default=FeatureAugment(), title="Feature augmentation")
    """How training vectors are changed at random."""
    mixup: Mixup = Field(default=Mixup(), title="Mixup")
    """How training rows are mixed in pairs."""
    optim: OptimSpec = Field(default=AdamW(), title="Optimiser")
    """Update rule of the parameters; a classifier that is solved, such as logreg, does not read it."""
    schedule: Schedule = Field(default=Schedule(), title="Schedule")
    """For how long."""
    ema: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT, title="Weight averaging: EMA decay")
    """Share of the last average in a running average of the weights, which is judged and kept; 0 takes no average."""
    early_stop: EarlyStop = Field(default=EarlyStop(), title="Early stopping")
    """Which epoch is kept."""

    @property
    def mixing(self) -> Mixup | None:
        """Method that mixes rows in pairs, or None if rows are not mixed."""
        return None if self.mixup.is_neutral else self.mixup

    @property
    def outside_steps(self) -> tuple[str, ...]:
        """Prefixes of the swept numbers that no step reads: the optimiser's, and those of random draws alone."""
        return ("optim.", "ema", *(f"mixup.{name}" for name in self.mixup.drawn_numbers))

    @property
    def full_from(self) -> float:
        """Progress from which all that comes in during training acts in full: late class weights, a changing sampler.

        >>> StageSpec(loss=LossSpec(weight_schedule=DeferredSchedule(start=0.8))).full_from
        0.8
        """
        schedule, sampler = self.loss.weight_schedule, self.sampler
        if isinstance(sampler, Shuffled) and sampler.draw == "progressive":
            return 1.0
        if isinstance(schedule, DeferredSchedule):
            return schedule.start
        return schedule.end if isinstance(schedule, RampSchedule) else 0.0

    def epochs_for(self, rows: int) -> int:
        """Passes over that many training rows.

        >>> StageSpec(sampler=ClassBatches(classes=5, rows=2)).epochs_for(100)
        100
        """
        return self.schedule.epochs_for(rows, self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """Rows in one batch, or the most of them where classes or their rows are few."""
        sampler = self.sampler
        return sampler.classes * sampler.rows if isinstance(sampler, ClassBatches) else self.schedule.batch_size
