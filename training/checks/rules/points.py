"""Rules of the loss of a sample and of the terms beside it, whatever their methods."""

from frostbench.training.checks.rules.second import METHODS
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_logreg, is_solved
from frostbench.training.spec.stage import EarlyStop


def _has_no_point(run: RunSpec) -> bool:
    """Whether training goes by the terms beside the point loss alone."""
    return run.train.loss.point_weight == 0 and not is_solved(run)


def _trained(run: RunSpec) -> set[str]:
    """What the terms train without a point loss."""
    return {str(method.trains) for method in run.train.loss.active.values() if method.trains}


def _is_left_untrained(run: RunSpec) -> bool:
    """Whether no stage trains the classifier; a term that acts on the logits does."""
    return _has_no_point(run) and not run.second.trains_classifier and "classifier" not in _trained(run)


def _judges(stop: EarlyStop) -> bool:
    """Whether a metric says which epoch is kept."""
    return stop.metric != "last" and stop.epoch is None


def _shapes_the_point(run: RunSpec) -> bool:
    loss = run.train.loss
    parts = (loss.point, loss.smoothing, loss.logit_adjustment, loss.hardmine)
    return parts != (CrossEntropy(), LabelSmoothing(), LogitAdjustment(), HardMine())


def _does_it_twice(run: RunSpec) -> bool:
    """Whether two methods of one family are on."""
    families = [method.family for method in run.train.loss.active.values() if method.family]
    return len(set(families)) < len(families)


RETRAINING = tuple(kind.model_fields["kind"].default for kind in METHODS if kind.trains_classifier)
"""Second stages that train the whole classifier."""

POINT_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _has_no_point(run) and not _trained(run),
        "with train.loss.point_weight=0 and no term beside it there is nothing to minimise: raise it, or the weight of "
        "a term such as a contrast",
    ),
    Rule(
        "refuse",
        lambda run: _is_left_untrained(run) and bool(_trained(run)),
        "with train.loss.point_weight=0 the terms shape the body alone and the classifier stays untrained: set "
        f"second.kind={' or '.join(RETRAINING)}, or raise train.loss.point_weight",
    ),
    Rule(
        "warn",
        lambda run: _has_no_point(run) and "classifier" not in _trained(run) and _judges(run.train.early_stop),
        "with train.loss.point_weight=0 the classifier of the first stage is untrained, so its metrics choose an epoch "
        "at random: set train.early_stop.metric=last",
    ),
    Rule(
        "no effect",
        lambda run: _has_no_point(run) and _shapes_the_point(run) and not is_logreg(run),
        "with train.loss.point_weight=0 the point loss counts nothing, so train.loss.point, smoothing, "
        "logit_adjustment and hardmine have no effect: leave them out",
    ),
    Rule(
        "warn",
        lambda run: not run.train.loss.point.is_convex and is_logreg(run),
        "the point loss is not convex in the logits, so logreg may end in an optimum that is not the best one: use "
        "train.loss.point.kind=cross_entropy, or head.classifier.kind=linear",
    ),
    Rule(
        "warn",
        _does_it_twice,
        "two terms are forms of one contrast: set the weight of one of them to 0",
    ),
)
