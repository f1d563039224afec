"""RunSpec: every choice that decides a trained head."""

from typing import Annotated, Literal

from pydantic import Field

from heads.head import HeadSpec
from heads.posthoc import PosthocSpec
from heads.spec import Spec
from training.losses.loss import LossSpec
from training.optim import AdamW, OptimSpec, Schedule

Name = Annotated[str, Field(min_length=1, max_length=1000)]


class EarlyStop(Spec):
    """Which epoch is kept, judged on the selection rows."""

    metric: Literal["macro_f1_fg", "balanced_accuracy", "accuracy", "nll"] = "macro_f1_fg"
    """Metric of the selection rows that decides; nll is the lower the better, the others the higher."""
    patience: int = Field(default=20, ge=1, le=100_000)
    """Epochs without a better value after which training ends; the best epoch is kept."""


class StageSpec(Spec):
    """One stage of training: what is minimised, how, and for how long."""

    loss: LossSpec = LossSpec()
    """What is minimised."""
    optim: OptimSpec = AdamW()
    """How parameters are moved; a classifier that is solved, such as logreg, does not read it."""
    schedule: Schedule = Schedule()
    """For how long."""
    early_stop: EarlyStop = EarlyStop()
    """Which epoch is kept."""


class RunSpec(Spec):
    """One trained head: reproducible from this, the table and its split."""

    columns: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Vector columns to read, joined in this order; none named means the table's first."""
    head: HeadSpec = HeadSpec()
    """What is trained."""
    train: StageSpec = StageSpec()
    """How it is trained."""
    posthoc: PosthocSpec = PosthocSpec()
    """What is done to the logits afterwards."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    """Names of classes that foreground F1 leaves out; their rows still count as errors where they are mistaken."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seeds initialisation, batch order and dropout."""
