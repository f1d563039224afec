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
    """Choice of the epoch that is kept, by a metric on the validation rows."""

    metric: StopMetric = Field(default="auto", title="Early stopping: metric")
    """Metric on the validation rows, with ties broken by NLL; auto is macro F1, or NLL below 50 rows per class.

    With last, the last epoch is kept and training never stops early.
    """
    patience: int = Field(default=20, ge=1, le=100_000, title="Early stopping: patience (epochs)")
    """Epochs without improvement before training ends, scaled up as the minimum of steps scales the epochs.

    Counted after the warm-up, once deferred class weights and samplers act in full.
    """
    epoch: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        json_schema_extra=empty("chosen by the metric"),
        title="Early stopping: fixed epoch",
    )
    """Epoch to stop at and keep, for example from cross-validation; null chooses it by the metric."""


def metric_of_strengths(metric: StopMetric) -> StopMetric:
    """Return the metric that chooses strengths and powers: macro F1 if the epochs' metric is auto or last."""
    return "macro_f1_fg" if metric in ("auto", "last") else metric


class StageSpec(Spec):
    """Settings of one stage of gradient training."""

    loss: LossSpec = Field(default=LossSpec(), title="Loss")
    """Loss that is minimised."""
    oversample: OversampleSpec = Field(default=NoOversample(), title="Oversampling of small classes")
    """Synthetic rows that fill small classes before training."""
    views: Literal["samples", "together", "averaged"] = Field(default="samples", title="Several views of an image")
    """Use of several views per image: as separate rows, all in one batch (together), or averaged into one row."""
    sampler: SamplerSpec = Field(default=Shuffled(), title="Batch sampler")
    """How rows are drawn into batches."""
    frofa: FrofaSpec = Field(default=NoFrofa(), title="Frozen-feature augmentation (FroFA)")
    """Image operations that are applied to cached vectors as if they were grey values."""
    augment: FeatureAugment = Field(default=FeatureAugment(), title="Feature augmentation")
    """Random changes of training vectors: noise and gains."""
    mixup: Mixup = Field(default=Mixup(), title="Mixup")
    """Mixing of training rows in pairs."""
    optim: OptimSpec = Field(default=AdamW(), title="Optimiser")
    """Optimiser of the parameters; closed-form classifiers such as logreg do not use it."""
    schedule: Schedule = Field(default=Schedule(), title="Schedule")
    """Length of training, batch size and learning-rate schedule."""
    ema: float = Field(default=0.0, ge=0, lt=1, json_schema_extra=SWEPT, title="Weight averaging: EMA decay")
    """Decay of an exponential moving average of the weights, which is evaluated and kept; 0 turns it off."""
    early_stop: EarlyStop = Field(default=EarlyStop(), title="Early stopping")
    """Choice of the epoch that is kept."""

    @property
    def mixing(self) -> Mixup | None:
        """Method that mixes rows in pairs, or None if rows are not mixed."""
        return None if self.mixup.is_neutral else self.mixup

    @property
    def outside_steps(self) -> tuple[str, ...]:
        """Prefixes of swept numbers that no step reads: those of the optimiser, the EMA and random draws."""
        return ("optim.", "ema", *(f"mixup.{name}" for name in self.mixup.drawn_numbers))

    @property
    def full_from(self) -> float:
        """Progress from which deferred class weights and a changing sampler act in full.

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
        """Return the epochs on `rows` training rows.

        >>> StageSpec(sampler=ClassBatches(classes=5, rows=2)).epochs_for(100)
        100
        """
        return self.schedule.epochs_for(rows, self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """Rows in one batch; an upper bound if classes or their rows are few."""
        sampler = self.sampler
        return sampler.classes * sampler.rows if isinstance(sampler, ClassBatches) else self.schedule.batch_size
