"""RunSpec: all settings that determine a trained head."""

from typing import Annotated

from pydantic import Field

from frostbench.heads.bodies.body import Identity
from frostbench.heads.classifier import Classifier
from frostbench.heads.head import Closed, HeadSpec, Stepped
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.heads.spec import Spec, empty
from frostbench.training.losses.class_weights import ConstantSchedule, InverseWeight, NoWeight, PowerWeight
from frostbench.training.sampling.batches import Shuffled
from frostbench.training.second_stage.crt import Crt
from frostbench.training.second_stage.lws import Lws
from frostbench.training.second_stage.none import NoSecondStage
from frostbench.training.second_stage.refit import Refit
from frostbench.training.second_stage.tau_norm import TauNorm
from frostbench.training.spec.stage import StageSpec

SecondStageSpec = Annotated[NoSecondStage | Crt | Lws | TauNorm | Refit, Field(discriminator="kind")]
Name = Annotated[str, Field(min_length=1, max_length=1000)]


class RunSpec(Spec):
    """Settings of one run; with the table and its split they reproduce the trained head."""

    columns: Annotated[tuple[Name, ...], Field(max_length=16, title="Vector columns")] = ()
    """Vector columns to read, concatenated in this order; empty uses the first column of the table."""
    view_sets: Annotated[tuple[Name, ...], Field(max_length=16, title="View sets in training")] = ()
    """View sets of the cache whose rows are added to the training rows (see docs/views.md); empty adds none."""
    tta: Annotated[tuple[Name, ...], Field(max_length=16, title="Test-time augmentation: view sets")] = ()
    """View sets of evaluated rows whose logits are averaged with those of each image; empty uses the image alone."""
    shots: int = Field(default=0, ge=0, le=1_000_000, title="Training images per class (few-shot)")
    """Training images per class, drawn by the seed, for few-shot experiments; 0 uses all."""
    head: HeadSpec = Field(default=HeadSpec(), title="Head")
    """Preprocessing, body and classifier of the head."""
    train: StageSpec = Field(default=StageSpec(), title="Training")
    """Settings of the first stage of training."""
    second: SecondStageSpec = Field(default=NoSecondStage(), title="Second stage")
    """Second stage, which trains, rescales or replaces the classifier with all layers before it frozen."""
    posthoc: PosthocSpec = Field(default=PosthocSpec(), title="Post-hoc steps")
    """Calibration and decisions, applied to the logits after training."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000, title="Background classes")] = ()
    """Classes that foreground F1 leaves out; their rows still count as errors when they are misclassified."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1, title="Seed")
    """Seed of initialisation, dropout, augmentation and mixing, and of the batch order if order_seed is null."""
    order_seed: int | None = Field(
        default=None, ge=0, le=2**31 - 1, json_schema_extra=empty("the run's seed"), title="Batch-order seed"
    )
    """Seed of the batch order; set it so that runs with different seeds train in one stack. Null uses the seed."""

    @property
    def classifiers(self) -> tuple[Stepped | Closed, ...]:
        """Specs of all classifiers of the run: that of the head, and its replacement by the second stage."""
        second = self.second.replacement
        return (self.head.classifier,) if second is None else (self.head.classifier, second)

    @property
    def order(self) -> int:
        """Seed of the batch order."""
        return self.seed if self.order_seed is None else self.order_seed

    @property
    def is_solved(self) -> bool:
        """Whether the classifier is closed-form, so that there are no batches or epochs."""
        return self.head.classifier.is_closed_form

    @property
    def is_fitted(self) -> bool:
        """Whether the classifier is computed from the rows and their weights, without minimising a loss."""
        return not self.head.classifier.minimises_loss

    @property
    def is_bare(self) -> bool:
        """Whether a classifier trained with gradient steps has no body in front of it."""
        return isinstance(self.head.body, Identity) and not self.is_solved

    @property
    def is_bare_cosine(self) -> bool:
        """Whether a cosine classifier reads the vectors directly, without a body."""
        return isinstance(self.head.body, Identity) and self.head.classifier.is_cosine

    @property
    def is_adjusted(self) -> bool:
        """Whether training adds the class prior to the logits."""
        return self.train.loss.logit_adjustment.tau > 0

    @property
    def is_shifted(self) -> bool:
        """Whether the class prior is subtracted from the logits after training."""
        return self.posthoc.adjustment.rule == "tuned" or self.posthoc.adjustment.tau > 0

    @property
    def is_weighted(self) -> bool:
        """Whether the loss has class weights."""
        return not isinstance(self.train.loss.class_weight, NoWeight)

    @property
    def is_resampled(self) -> bool:
        """Whether classes are not drawn in proportion to their size."""
        sampler = self.train.sampler
        return not isinstance(sampler, Shuffled) or sampler.draw != "instance"

    @property
    def is_mixed(self) -> bool:
        """Whether rows are mixed in pairs."""
        return self.train.mixing is not None

    @property
    def is_smoothed(self) -> bool:
        """Whether labels are smoothed without regard to class sizes."""
        smoothing = self.train.loss.smoothing
        return smoothing.epsilon > 0 and smoothing.spread != "prior"

    @property
    def reads_loss_last(self) -> bool:
        """Whether the final classifier minimises train.loss."""
        replacement = self.second.replacement
        if replacement is not None:
            return replacement.minimises_loss
        return self.second.is_none and not self.is_fitted

    @property
    def is_logreg(self) -> bool:
        """Whether the final classifier minimises the loss without gradient steps, as logistic regression does."""
        last = self.last_classifier
        return last.is_closed_form and last.minimises_loss

    @property
    def last_classifier(self) -> Classifier:
        """Spec of the final classifier."""
        return self.second.replacement or self.head.classifier

    @property
    def weighs_evenly(self) -> bool:
        """Whether class weights cancel the class sizes exactly, so that the loss ends with a uniform prior."""
        weight = self.train.loss.class_weight
        is_inverse = isinstance(weight, InverseWeight) or (isinstance(weight, PowerWeight) and weight.power == 1)
        return is_inverse and self.train.loss.count == "images" and not self.is_resampled

    @property
    def draws_evenly(self) -> bool:
        """Whether the sampler alone cancels the class sizes exactly at the end of training."""
        sampler = self.train.sampler
        is_even = isinstance(sampler, Shuffled) and sampler.draw in ("class_balanced", "progressive")
        return is_even and not self.is_weighted

    @property
    def sees_evenly(self) -> bool:
        """Whether the loss has a uniform class prior from the first step to the last."""
        sampler, is_constant = self.train.sampler, isinstance(self.train.loss.weight_schedule, ConstantSchedule)
        is_drawn = self.draws_evenly and isinstance(sampler, Shuffled) and sampler.draw == "class_balanced"
        return is_drawn or (self.weighs_evenly and is_constant)

    @property
    def largest_logit(self) -> float:
        """Upper bound on |logit| of the classifiers that train.loss trains; infinity if there is no bound."""
        if self.is_logreg:
            return float("inf")
        return self.head.classifier.logit_bound / min(m.least_temperature for m in self.train.loss.methods.values())

    def epochs_for(self, rows: int) -> int:
        """Return the maximum epochs of gradient steps on `rows` training rows, over both stages.

        >>> RunSpec().epochs_for(6400), RunSpec(second=Crt()).epochs_for(6400)
        (50, 60)
        """
        return self.train.epochs_for(rows) + self.second.epochs_for(self.train.schedule, rows)
