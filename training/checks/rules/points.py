"""Rules of the point loss and of the terms added to it, whatever their methods."""

from frostbench.training.checks.rules.second import METHODS
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import EarlyStop


def _has_no_point(run: RunSpec) -> bool:
    """Whether training uses only the terms added to the point loss."""
    return run.train.loss.point_weight == 0 and not run.is_solved


def _trained(run: RunSpec) -> set[str]:
    """Return the parts that the terms train without a point loss: body, classifier or both."""
    return {str(method.trains) for method in run.train.loss.active.values() if method.trains}


def _is_left_untrained(run: RunSpec) -> bool:
    """Whether no stage and no term trains the classifier."""
    return _has_no_point(run) and not run.second.trains_classifier and "classifier" not in _trained(run)


def _chooses_epoch(stop: EarlyStop) -> bool:
    """Whether a metric chooses the epoch that is kept."""
    return stop.metric != "last" and stop.epoch is None


def _shapes_the_point(run: RunSpec) -> bool:
    loss = run.train.loss
    parts = (loss.point, loss.smoothing, loss.logit_adjustment, loss.hardmine)
    return parts != (CrossEntropy(), LabelSmoothing(), LogitAdjustment(), HardMine())


def _has_same_family(run: RunSpec) -> bool:
    """Whether two active methods are of one family."""
    families = [method.family for method in run.train.loss.active.values() if method.family]
    return len(set(families)) < len(families)


RETRAINING = tuple(kind.model_fields["kind"].default for kind in METHODS if kind.trains_classifier)
"""Second stages that train the whole classifier."""

POINT_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _has_no_point(run) and not _trained(run),
        "train.loss.point_weight=0 without any other term leaves nothing to minimise: raise it, or the weight of a "
        "term such as supcon",
    ),
    Rule(
        "refuse",
        lambda run: _is_left_untrained(run) and bool(_trained(run)),
        "with train.loss.point_weight=0 the terms train only the body and the classifier stays untrained: set "
        f"second.kind={' or '.join(RETRAINING)}, or raise train.loss.point_weight",
    ),
    Rule(
        "warn",
        lambda run: _has_no_point(run) and "classifier" not in _trained(run) and _chooses_epoch(run.train.early_stop),
        "with train.loss.point_weight=0 the classifier of the first stage is untrained, so its metrics choose a random "
        "epoch: set train.early_stop.metric=last",
    ),
    Rule(
        "no effect",
        lambda run: _has_no_point(run) and _shapes_the_point(run) and not run.is_logreg,
        "with train.loss.point_weight=0 the point loss is off, so train.loss.point, smoothing, logit_adjustment and "
        "hardmine have no effect: leave them out",
    ),
    Rule(
        "warn",
        lambda run: not run.train.loss.point.is_convex and run.is_logreg,
        "the point loss is not convex in the logits, so logreg may end in a local optimum: use "
        "train.loss.point.kind=cross_entropy, or head.classifier.kind=linear",
    ),
    Rule(
        "warn",
        _has_same_family,
        "two terms are forms of the same contrastive loss: set the weight of one of them to 0",
    ),
)
