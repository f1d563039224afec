"""Rules of losses and terms that are there for the calibration of what is predicted."""

from frostbench.training.checks.rules.properties import (
    is_adjusted,
    is_fitted,
    is_logreg,
    is_mixed,
    is_solved,
    is_weighted,
    largest_logit,
)
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.acls import Acls
from frostbench.training.losses.cpc import Cpc
from frostbench.training.losses.entropy import Ecp
from frostbench.training.losses.focal import DualFocal, SigmoidFocal
from frostbench.training.losses.mbls import Mbls
from frostbench.training.losses.mmce import Mmce
from frostbench.training.run import RunSpec


def _has_terms(run: RunSpec) -> bool:
    return run.train.loss.mmce.weight > 0 or run.train.loss.mdca.weight > 0


def _is_smoothed_by_label(run: RunSpec) -> bool:
    return run.train.loss.smoothing.epsilon > 0


def _penalises_nothing(run: RunSpec) -> bool:
    """Whether the strengths of a point loss leave cross entropy."""
    point = run.train.loss.point
    if isinstance(point, Acls):
        return point.strength == 0 or point.positive == point.negative == 0
    if isinstance(point, Cpc):
        return point.discrimination == point.exclusion == 0
    return isinstance(point, Mbls | Ecp) and point.strength == 0


def _cannot_bind(run: RunSpec) -> bool:
    """Whether a margin is as wide as any gap between two logits can be."""
    point = run.train.loss.point
    return isinstance(point, Mbls | Acls) and 2 * largest_logit(run) <= point.margin


def _binds_gaps_only(run: RunSpec) -> bool:
    """Whether the margin of acls is above every logit, and below the widest gap."""
    point = run.train.loss.point
    if not isinstance(point, Acls) or point.positive == 0 or _penalises_nothing(run):
        return False
    return largest_logit(run) <= point.margin < 2 * largest_logit(run)


CALIBRATING_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: isinstance(run.train.loss.point, DualFocal) and _is_smoothed_by_label(run) and not is_fitted(run),
        "dual_focal compares a label with the class below it, and a smoothed label is several: set "
        "train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal",
    ),
    Rule(
        "refuse",
        lambda run: isinstance(run.train.loss.point, Acls) and is_logreg(run),
        "acls takes the largest logit as fixed in part of it, so its slope is that of no function and logreg has no "
        "optimum to find: use train.loss.point.kind=mbls, or head.classifier.kind=linear",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.train.loss.point, Mbls) and is_logreg(run) and not _penalises_nothing(run),
        "the penalty of mbls bends where a gap meets the margin, where a gradient need not vanish, so logreg may not "
        "converge: use head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: run.train.loss.mmce.weight > 0 and is_mixed(run),
        "mmce asks whether a row is predicted rightly, and a mixed row has no one class: use one of train.loss.mmce "
        "and train.mixup, or train.loss.mdca",
    ),
    Rule(
        "refuse",
        lambda run: _has_terms(run) and is_solved(run),
        "mmce and mdca compare the rows of a batch and a solved classifier such as logreg has no batches: use "
        "head.classifier.kind=linear, or set their weights to 0",
    ),
    Rule(
        "refuse",
        lambda run: _has_terms(run) and run.train.loss.point_weight == 0 and not is_solved(run),
        "mmce and mdca correct the confidence of a classifier that the point loss trains: raise "
        "train.loss.point_weight, or set their weights to 0",
    ),
    Rule(
        "idle",
        lambda run: run.train.loss.mmce.weight == 0 and run.train.loss.mmce != Mmce(),
        "mmce has weight 0, so its other options have no effect: set train.loss.mmce.weight above 0",
    ),
    Rule(
        "warn",
        lambda run: _has_terms(run) and (is_adjusted(run) or is_weighted(run)),
        "mmce and mdca draw predictions to the classes as they are drawn, and logit adjustment and class weights draw "
        "them elsewhere: use one of them",
    ),
    Rule(
        "warn",
        lambda run: _has_terms(run) and isinstance(run.train.loss.point, SigmoidFocal),
        "mmce and mdca read the probabilities of a softmax, and sigmoid_focal trains a sigmoid for each class: use "
        "train.loss.point.kind=focal",
    ),
    Rule(
        "idle",
        lambda run: _penalises_nothing(run) and not is_fitted(run),
        "mbls, acls, ecp and cpc with strength 0 are cross entropy: raise it, or use "
        "train.loss.point.kind=cross_entropy",
    ),
    Rule(
        "warn",
        lambda run: (
            isinstance(run.train.loss.point, Mbls | Acls | Ecp)
            and _is_smoothed_by_label(run)
            and not _penalises_nothing(run)
            and not is_fitted(run)
        ),
        "label smoothing already bounds how far logits lie apart, as mbls, acls and ecp do: use one of "
        "train.loss.smoothing and these",
    ),
    Rule(
        "warn",
        lambda run: (
            isinstance(run.train.loss.point, Cpc)
            and run.train.loss.point.discrimination > 0
            and _is_smoothed_by_label(run)
            and not is_fitted(run)
        ),
        "cpc draws the label away from each other class without end, and label smoothing bounds that gap: set "
        "train.loss.smoothing.epsilon=0, or train.loss.point.discrimination=0",
    ),
    Rule(
        "idle",
        lambda run: _cannot_bind(run) and not _penalises_nothing(run),
        "logits of a cosine classifier differ by at most twice its scale, so a margin of that size penalises nothing "
        "and the point loss is cross entropy: lower train.loss.point.margin, or raise head.classifier.scale",
    ),
    Rule(
        "warn",
        _binds_gaps_only,
        "a logit of a cosine classifier is at most its scale, so with that margin acls leaves the largest logit "
        "alone: lower train.loss.point.margin, or use train.loss.point.kind=mbls",
    ),
)
