"""RunSpec: every choice that decides a trained head."""

from typing import Annotated, Literal

from pydantic import Field

from heads.head import HeadSpec
from heads.posthoc import PosthocSpec
from heads.spec import Spec
from training.augment import FeatureAugment
from training.losses.loss import LossSpec
from training.mixup import Mixup
from training.optim import AdamW, OptimSpec, Schedule
from training.second import Crt, NoSecondStage, SecondStageSpec

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
    augment: FeatureAugment = FeatureAugment()
    """How training vectors are changed at random."""
    mixup: Mixup = Mixup()
    """How training rows are mixed in pairs."""
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
    second: SecondStageSpec = NoSecondStage()
    """What follows that training: nothing, or crt, which trains the classifier anew on balanced classes."""
    posthoc: PosthocSpec = PosthocSpec()
    """What is done to the logits afterwards."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    """Names of classes that foreground F1 leaves out; their rows still count as errors where they are mistaken."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seeds initialisation, batch order, dropout, augmentation and mixing."""

    def epochs_for(self, rows: int) -> int:
        """The most epochs of gradient steps on that many training rows, over both stages.

        >>> RunSpec().epochs_for(6400), RunSpec(second=Crt()).epochs_for(6400)
        (50, 60)
        """
        first = self.train.schedule
        second = self.second.schedule(first).epochs_for(rows) if isinstance(self.second, Crt) else 0
        return first.epochs_for(rows) + second
