"""Rules of classifiers without gradient steps."""

from frostbench.heads.bodies.body import Identity
from frostbench.heads.closed_form.mahalanobis import Mahalanobis
from frostbench.heads.closed_form.nearest_mean import NearestMean
from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.preprocess import Standardise
from frostbench.training.augment.frofa import NoFrofa
from frostbench.training.checks.rules.properties import is_fitted, is_mixed, is_resampled, is_solved, is_weighted
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.class_weights import ConstantSchedule
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample
from frostbench.training.second import NoSecondStage
from frostbench.training.spec.optim import AdamW, Schedule
from frostbench.training.spec.stage import EarlyStop


def _stops_early(run: RunSpec) -> bool:
    """Whether early_stop asks for something; a tuned post-hoc shift reads the metric."""
    stop, is_tuned = run.train.early_stop, run.posthoc.adjustment.rule == "tuned"
    is_given = stop.epoch is not None
    return is_given or stop.patience != EarlyStop().patience or (stop.metric != EarlyStop().metric and not is_tuned)


def _minimises(run: RunSpec) -> bool:
    """Whether the loss asks for something that only a minimised loss can have."""
    loss = run.train.loss
    parts = (loss.point, loss.smoothing, loss.logit_adjustment)
    return parts != (CrossEntropy(), LabelSmoothing(), LogitAdjustment())


def _forgets_weights(run: RunSpec) -> bool:
    """Whether the classifier is the same whatever its classes weigh: each class is fitted by itself."""
    classifier = run.head.classifier
    is_apart = isinstance(classifier, Mahalanobis) or (isinstance(classifier, NearestMean) and not classifier.center)
    return is_apart or isinstance(classifier, ZeroShot)


SOLVED_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: is_solved(run) and not isinstance(run.head.body, Identity),
        "a solved classifier such as logreg stands on fixed vectors, so a body in front of it would stay untrained: "
        "use head.body.kind=identity, head.classifier.kind=linear, or second.kind=refit",
    ),
    Rule(
        "refuse",
        lambda run: is_solved(run) and is_resampled(run),
        "a sampler draws rows batch by batch and a solved classifier such as logreg takes all rows once: use "
        "train.loss.class_weight, or head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: is_solved(run) and not isinstance(run.second, NoSecondStage),
        "a second stage follows gradient steps and a solved classifier such as logreg takes none: set second.kind=none "
        "or use head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: is_solved(run) and not isinstance(run.train.loss.weight_schedule, ConstantSchedule),
        "weights that change in training need training steps and a solved classifier such as logreg takes none: set "
        "train.loss.weight_schedule.kind=constant",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and (run.train.optim, run.train.schedule) != (AdamW(), Schedule()),
        "a solved classifier such as logreg takes no steps, so train.optim and train.schedule have no effect on it",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and run.train.ema > 0,
        "a solved classifier such as logreg takes no steps, so train.ema has nothing to average: set it to 0",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and _stops_early(run),
        "a solved classifier such as logreg has no epochs, so train.early_stop has no effect on it",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and (is_mixed(run) or not run.train.augment.is_neutral),
        "a solved classifier such as logreg takes the training rows as they are, so train.augment and train.mixup have "
        "no effect on it",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and not isinstance(run.train.frofa, NoFrofa),
        "a solved classifier such as logreg takes the training rows as they are, so train.frofa has no effect on it: "
        "set its kind to none",
    ),
    Rule(
        "idle",
        lambda run: is_solved(run) and run.train.loss.point_weight != 1,
        "a solved classifier such as logreg has no terms beside its loss, so train.loss.point_weight has no effect: "
        "leave it at 1",
    ),
    Rule(
        "idle",
        lambda run: is_fitted(run) and _minimises(run),
        "ridge, lda, ncm, mahalanobis, knn and zero_shot minimise no loss of train.loss, so its point, smoothing and "
        "logit_adjustment have no effect on them: use posthoc.adjustment, or head.classifier.kind=logreg",
    ),
    Rule(
        "idle",
        lambda run: _forgets_weights(run) and is_weighted(run),
        "mahalanobis, zero_shot, and ncm without centring look at each class by itself, so class weights have no "
        "effect on them: set train.loss.class_weight.kind=none",
    ),
    Rule(
        "idle",
        lambda run: isinstance(run.head.classifier, ZeroShot) and not isinstance(run.train.oversample, NoOversample),
        "zero_shot reads no training rows, so train.oversample has no effect on it: set its kind to none",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.head.classifier, ZeroShot) and run.head.preprocess != Standardise(),
        "zero_shot compares vectors with text weights of the space they were cached in, and head.preprocess leaves "
        "that space: set its center and std to false",
    ),
)
