"""RunSpec: every choice that decides a trained head."""

from typing import Annotated

from pydantic import Field

from frostbench.heads.head import Closed, HeadSpec, Stepped
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.spec import Spec, empty
from frostbench.training.second_stage.crt import Crt
from frostbench.training.second_stage.lws import Lws
from frostbench.training.second_stage.none import NoSecondStage
from frostbench.training.second_stage.refit import Refit
from frostbench.training.second_stage.tau_norm import TauNorm
from frostbench.training.spec.stage import StageSpec

SecondStageSpec = Annotated[NoSecondStage | Crt | Lws | TauNorm | Refit, Field(discriminator="kind")]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class RunSpec(Spec):
    """One trained head: reproducible from this, the table and its split."""

    columns: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Vector columns to read, joined in this order; none named means the table's first."""
    view_sets: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Names of view sets of the cache whose rows join the training rows; see docs/views.md. None: the images alone."""
    tta: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Names of view sets of judged rows whose logits are averaged with each image's own; none: the image alone."""
    head: HeadSpec = HeadSpec()
    """What is trained."""
    train: StageSpec = StageSpec()
    """How it is trained."""
    second: SecondStageSpec = NoSecondStage()
    """What follows that training: nothing, or another way to the classifier with all before it frozen."""
    posthoc: PosthocSpec = PosthocSpec()
    """What is done to the logits afterwards."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    """Names of classes that foreground F1 leaves out; their rows still count as errors where they are mistaken."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    """Seeds initialisation, dropout, augmentation and mixing, and the batch order where order_seed is null."""
    order_seed: int | None = Field(default=None, ge=0, le=2**31 - 1, json_schema_extra=empty("the run's seed"))
    """Seeds the batch order alone, so that runs of other seeds can be trained in one stack; null takes the seed."""

    @property
    def classifiers(self) -> tuple[Stepped | Closed, ...]:
        """The specs of all classifiers that are made: the head's, and one that takes its place later."""
        second = self.second.replacement
        return (self.head.classifier,) if second is None else (self.head.classifier, second)

    @property
    def order(self) -> int:
        """The seed of the batch order."""
        return self.seed if self.order_seed is None else self.order_seed

    def epochs_for(self, rows: int) -> int:
        """The most epochs of gradient steps on that many training rows, over both stages.

        >>> RunSpec().epochs_for(6400), RunSpec(second=Crt()).epochs_for(6400)
        (50, 60)
        """
        return self.train.epochs_for(rows) + self.second.epochs_for(self.train.schedule, rows)
