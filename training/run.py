"""RunSpec: every choice that decides a trained head."""

from typing import Annotated

from pydantic import Field

from frostbench.heads.head import Closed, HeadSpec, Stepped
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.spec import Spec, empty
from frostbench.training import run_properties as asked
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

    columns: Annotated[tuple[Name, ...], Field(max_length=16, title="Vector columns")] = ()
    """Vector columns to read, joined in this order; none named means the table's first."""
    view_sets: Annotated[tuple[Name, ...], Field(max_length=16, title="View sets in training")] = ()
    """Names of view sets of the cache whose rows join the training rows; see docs/views.md. None: the images alone."""
    tta: Annotated[tuple[Name, ...], Field(max_length=16, title="Test-time augmentation: view sets")] = ()
    """Names of view sets of judged rows whose logits are averaged with each image's own; none: the image alone."""
    head: HeadSpec = Field(default=HeadSpec(), title="Head")
    """What is trained."""
    train: StageSpec = Field(default=StageSpec(), title="Training")
    """How it is trained."""
    second: SecondStageSpec = Field(default=NoSecondStage(), title="Second stage")
    """Second stage: none, or another way to the classifier with all layers before it frozen."""
    posthoc: PosthocSpec = Field(default=PosthocSpec(), title="Post-hoc steps")
    """What is done to the logits afterwards."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000, title="Background classes")] = ()
    """Names of classes that foreground F1 leaves out; their rows still count as errors where they are mistaken."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1, title="Seed")
    """Seeds initialisation, dropout, augmentation and mixing, and the batch order where order_seed is null."""
    order_seed: int | None = Field(
        default=None, ge=0, le=2**31 - 1, json_schema_extra=empty("the run's seed"), title="Batch-order seed"
    )
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

    @property
    def is_solved(self) -> bool:
        """Whether the classifier takes no gradient steps."""
        return asked.is_solved(self)

    @property
    def is_fitted(self) -> bool:
        """Whether the classifier minimises no loss."""
        return asked.is_fitted(self)

    @property
    def is_bare(self) -> bool:
        """Whether a classifier that is stepped has no body in front of it."""
        return asked.is_bare(self)

    @property
    def is_logreg(self) -> bool:
        """Whether the classifier that is the result is logistic regression."""
        return asked.is_logreg(self)

    @property
    def is_adjusted(self) -> bool:
        """Whether training adds the class prior to the logits."""
        return asked.is_adjusted(self)

    @property
    def is_shifted(self) -> bool:
        """Whether the class prior is taken off the logits after training."""
        return asked.is_shifted(self)

    @property
    def is_weighted(self) -> bool:
        """Whether classes may weigh differently in the loss."""
        return asked.is_weighted(self)

    @property
    def is_mixed(self) -> bool:
        """Whether rows are mixed in pairs."""
        return asked.is_mixed(self)

    @property
    def reads_loss_last(self) -> bool:
        """Whether the resulting classifier was made by train.loss, and by no second stage after it."""
        return asked.reads_loss_last(self)

    @property
    def largest_logit(self) -> float:
        """Upper bound on |logit| from the classifiers that read the loss, or infinity."""
        return asked.largest_logit(self)

    def epochs_for(self, rows: int) -> int:
        """The most epochs of gradient steps on that many training rows, over both stages.

        >>> RunSpec().epochs_for(6400), RunSpec(second=Crt()).epochs_for(6400)
        (50, 60)
        """
        return self.train.epochs_for(rows) + self.second.epochs_for(self.train.schedule, rows)
