"""Questions about a run that several rules ask."""

from typing import TYPE_CHECKING

from frostbench.heads.bodies.body import Identity
from frostbench.heads.classifier import Classifier
from frostbench.training.losses.class_weights import ConstantSchedule, InverseWeight, NoWeight, PowerWeight
from frostbench.training.sampling.batches import Shuffled

# A run has these questions as properties, for the rules of methods, which are part of a run themselves.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def is_solved(run: "RunSpec") -> bool:
    """Whether the classifier takes no gradient steps, so that there is one stage without batches or epochs."""
    return run.head.classifier.is_closed_form


def is_fitted(run: "RunSpec") -> bool:
    """Whether the classifier minimises no loss: it is made of the rows and their weights."""
    return not run.head.classifier.minimises_loss


def is_bare(run: "RunSpec") -> bool:
    """Whether a classifier that is stepped has no body in front of it."""
    return isinstance(run.head.body, Identity) and not is_solved(run)


def is_bare_cosine(run: "RunSpec") -> bool:
    """Whether a stepped classifier reads the cosines of the vectors themselves."""
    return isinstance(run.head.body, Identity) and run.head.classifier.is_cosine


def is_adjusted(run: "RunSpec") -> bool:
    """Whether training adds the class prior to the logits."""
    return run.train.loss.logit_adjustment.tau > 0


def is_shifted(run: "RunSpec") -> bool:
    """Whether the class prior is taken off the logits after training."""
    return run.posthoc.adjustment.rule == "tuned" or run.posthoc.adjustment.tau > 0


def is_weighted(run: "RunSpec") -> bool:
    """Whether classes may weigh differently in the loss."""
    return not isinstance(run.train.loss.class_weight, NoWeight)


def is_resampled(run: "RunSpec") -> bool:
    """Whether classes are drawn otherwise than by their size."""
    sampler = run.train.sampler
    return not isinstance(sampler, Shuffled) or sampler.draw != "instance"


def is_mixed(run: "RunSpec") -> bool:
    """Whether rows are mixed in pairs."""
    return run.train.mixing is not None


def is_smoothed(run: "RunSpec") -> bool:
    """Whether labels are smoothed towards classes whatever their size."""
    smoothing = run.train.loss.smoothing
    return smoothing.epsilon > 0 and smoothing.spread != "prior"


def reads_loss_last(run: "RunSpec") -> bool:
    """Whether the classifier that is the result was made by train.loss, and by no second stage after it."""
    replacement = run.second.replacement
    if replacement is not None:
        return replacement.minimises_loss
    return run.second.is_none and not is_fitted(run)


def is_logreg(run: "RunSpec") -> bool:
    """Whether the classifier that is the result minimises the loss in closed form, as logistic regression does."""
    last = last_classifier(run)
    return last.is_closed_form and last.minimises_loss


def last_classifier(run: "RunSpec") -> Classifier:
    """The spec of the classifier that is the result."""
    return run.second.replacement or run.head.classifier


def weighs_evenly(run: "RunSpec") -> bool:
    """Whether class weights make up for the class sizes exactly, so that the loss sees all classes alike at the end."""
    weight = run.train.loss.class_weight
    is_inverse = isinstance(weight, InverseWeight) or (isinstance(weight, PowerWeight) and weight.power == 1)
    return is_inverse and run.train.loss.count == "images" and not is_resampled(run)


def draws_evenly(run: "RunSpec") -> bool:
    """Whether the sampler makes up for the class sizes exactly at the end of training, and nothing else does."""
    sampler = run.train.sampler
    is_even = isinstance(sampler, Shuffled) and sampler.draw in ("class_balanced", "progressive")
    return is_even and not is_weighted(run)


def sees_evenly(run: "RunSpec") -> bool:
    """Whether the loss sees all classes alike from the first step to the last."""
    sampler, is_constant = run.train.sampler, isinstance(run.train.loss.weight_schedule, ConstantSchedule)
    is_drawn = draws_evenly(run) and isinstance(sampler, Shuffled) and sampler.draw == "class_balanced"
    return is_drawn or (weighs_evenly(run) and is_constant)


def largest_logit(run: "RunSpec") -> float:
    """Return an upper bound on |logit| from the classifiers that read the loss, or infinity."""
    if is_logreg(run):
        return float("inf")
    return run.head.classifier.logit_bound / min(m.least_temperature for m in run.train.loss.methods.values())
