"""Properties of a run that several rules read."""

from typing import TYPE_CHECKING

from frostbench.heads.bodies.body import Identity
from frostbench.heads.classifier import Classifier
from frostbench.training.losses.class_weights import ConstantSchedule, InverseWeight, NoWeight, PowerWeight
from frostbench.training.sampling.batches import Shuffled

# RunSpec has these as properties too, for rules in layers below this module.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def is_solved(run: "RunSpec") -> bool:
    """Whether the classifier is closed-form, so that there are no batches or epochs."""
    return run.head.classifier.is_closed_form


def is_fitted(run: "RunSpec") -> bool:
    """Whether the classifier minimises no loss, but is computed from the rows and their weights."""
    return not run.head.classifier.minimises_loss


def is_bare(run: "RunSpec") -> bool:
    """Whether a classifier trained with gradient steps has no body in front of it."""
    return isinstance(run.head.body, Identity) and not is_solved(run)


def is_bare_cosine(run: "RunSpec") -> bool:
    """Whether a cosine classifier reads the vectors directly, without a body."""
    return isinstance(run.head.body, Identity) and run.head.classifier.is_cosine


def is_adjusted(run: "RunSpec") -> bool:
    """Whether training adds the class prior to the logits."""
    return run.train.loss.logit_adjustment.tau > 0


def is_shifted(run: "RunSpec") -> bool:
    """Whether the class prior is subtracted from the logits after training."""
    return run.posthoc.adjustment.rule == "tuned" or run.posthoc.adjustment.tau > 0


def is_weighted(run: "RunSpec") -> bool:
    """Whether the loss has class weights."""
    return not isinstance(run.train.loss.class_weight, NoWeight)


def is_resampled(run: "RunSpec") -> bool:
    """Whether classes are not drawn in proportion to their size."""
    sampler = run.train.sampler
    return not isinstance(sampler, Shuffled) or sampler.draw != "instance"


def is_mixed(run: "RunSpec") -> bool:
    """Whether rows are mixed in pairs."""
    return run.train.mixing is not None


def is_smoothed(run: "RunSpec") -> bool:
    """Whether labels are smoothed without regard to class sizes."""
    smoothing = run.train.loss.smoothing
    return smoothing.epsilon > 0 and smoothing.spread != "prior"


def reads_loss_last(run: "RunSpec") -> bool:
    """Whether train.loss trains the final classifier, rather than a second stage."""
    replacement = run.second.replacement
    if replacement is not None:
        return replacement.minimises_loss
    return run.second.is_none and not is_fitted(run)


def is_logreg(run: "RunSpec") -> bool:
    """Whether the final classifier minimises the loss without gradient steps, as logistic regression does."""
    last = last_classifier(run)
    return last.is_closed_form and last.minimises_loss


def last_classifier(run: "RunSpec") -> Classifier:
    """Return the spec of the final classifier."""
    return run.second.replacement or run.head.classifier


def weighs_evenly(run: "RunSpec") -> bool:
    """Whether class weights cancel the class sizes exactly, so that the loss ends with a uniform prior."""
    weight = run.train.loss.class_weight
    is_inverse = isinstance(weight, InverseWeight) or (isinstance(weight, PowerWeight) and weight.power == 1)
    return is_inverse and run.train.loss.count == "images" and not is_resampled(run)


def draws_evenly(run: "RunSpec") -> bool:
    """Whether the sampler alone cancels the class sizes exactly at the end of training."""
    sampler = run.train.sampler
    is_even = isinstance(sampler, Shuffled) and sampler.draw in ("class_balanced", "progressive")
    return is_even and not is_weighted(run)


def sees_evenly(run: "RunSpec") -> bool:
    """Whether the loss has a uniform class prior from the first step to the last."""
    sampler, is_constant = run.train.sampler, isinstance(run.train.loss.weight_schedule, ConstantSchedule)
    is_drawn = draws_evenly(run) and isinstance(sampler, Shuffled) and sampler.draw == "class_balanced"
    return is_drawn or (weighs_evenly(run) and is_constant)


def largest_logit(run: "RunSpec") -> float:
    """Return an upper bound on |logit| from the classifiers that read the loss, or infinity."""
    if is_logreg(run):
        return float("inf")
    return run.head.classifier.logit_bound / min(m.least_temperature for m in run.train.loss.methods.values())
