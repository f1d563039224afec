"""Rules of the loss of a sample and of which samples count."""

from frostbench.heads.posthoc.spec import NoCalibration
from frostbench.training.checks.rules.properties import (
    is_adjusted,
    is_fitted,
    is_logreg,
    is_mixed,
    is_shifted,
    is_solved,
    reads_loss_last,
)
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.brier import Brier
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.entropy import Ecp
from frostbench.training.losses.focal import DualFocal, Flsd53, Focal, SigmoidFocal
from frostbench.training.losses.hardmine import HardMine
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.run import RunSpec
from frostbench.training.sampling.samplers import ClassBatches
from frostbench.training.spec.stage import EarlyStop


def _is_focal(run: RunSpec) -> bool:
    point = run.train.loss.point
    return isinstance(point, SigmoidFocal | Flsd53) or (isinstance(point, Focal | DualFocal) and point.gamma > 0)


def _is_curved(run: RunSpec) -> bool:
    """Whether the point loss is not convex in the logits."""
    point = run.train.loss.point
    return _is_focal(run) or isinstance(point, Brier) or (isinstance(point, Ecp) and point.strength > 0)


def _is_mined(run: RunSpec) -> bool:
    return run.train.loss.hardmine.keep < 1


def _fills_quotas(run: RunSpec) -> bool:
    """Whether a batch holds no more rows of a class than hardmine always keeps."""
    sampler, mining = run.train.sampler, run.train.loss.hardmine
    return isinstance(sampler, ClassBatches) and sampler.rows <= mining.quota and not mining.noise_guard


def _has_no_point(run: RunSpec) -> bool:
    """Whether training goes by the terms beside the point loss alone."""
    return run.train.loss.point_weight == 0 and not is_solved(run)


def _has_no_term(run: RunSpec) -> bool:
    loss = run.train.loss
    return loss.supcon.weight == loss.bcl.weight == loss.center.weight == loss.lade.weight == 0


def _is_left_untrained(run: RunSpec) -> bool:
    """Whether no stage trains the classifier; lade trains it, for it acts on the logits."""
    return _has_no_point(run) and not run.second.trains_classifier and run.train.loss.lade.weight == 0


def _judges(stop: EarlyStop) -> bool:
    """Whether a metric says which epoch is kept."""
    return stop.metric != "last" and stop.epoch is None


def _shapes_the_point(run: RunSpec) -> bool:
    loss = run.train.loss
    parts = (loss.point, loss.smoothing, loss.logit_adjustment, loss.hardmine)
    return parts != (CrossEntropy(), LabelSmoothing(), LogitAdjustment(), HardMine())


POINT_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _has_no_point(run) and _has_no_term(run),
        "with train.loss.point_weight=0 and no term beside it there is nothing to minimise: raise it, or the weight of "
        "train.loss.supcon",
    ),
    Rule(
        "refuse",
        lambda run: _is_left_untrained(run) and not _has_no_term(run),
        "with train.loss.point_weight=0 the terms shape the body alone and the classifier stays untrained: set "
        "second.kind=refit or crt, or raise train.loss.point_weight",
    ),
    Rule(
        "warn",
        lambda run: _has_no_point(run) and run.train.loss.lade.weight == 0 and _judges(run.train.early_stop),
        "with train.loss.point_weight=0 the classifier of the first stage is untrained, so its metrics choose an epoch "
        "at random: set train.early_stop.metric=last",
    ),
    Rule(
        "idle",
        lambda run: _has_no_point(run) and _shapes_the_point(run) and not is_logreg(run),
        "with train.loss.point_weight=0 the point loss counts nothing, so train.loss.point, smoothing, "
        "logit_adjustment and hardmine have no effect: leave them out",
    ),
    Rule(
        "warn",
        lambda run: _is_mined(run) and isinstance(run.posthoc.calibration, NoCalibration) and reads_loss_last(run),
        "hardmine distorts probabilities: set posthoc.calibration.kind=temperature",
    ),
    Rule(
        "warn",
        lambda run: _is_focal(run) and isinstance(run.posthoc.calibration, NoCalibration) and reads_loss_last(run),
        "focal losses leave probabilities too unsure: set posthoc.calibration.kind=temperature",
    ),
    Rule(
        "warn",
        lambda run: _is_curved(run) and is_logreg(run),
        "focal losses, brier and ecp are not convex, so logreg may end in an optimum that is not the best one: use "
        "train.loss.point.kind=cross_entropy, or head.classifier.kind=linear",
    ),
    Rule(
        "idle",
        lambda run: (
            isinstance(run.train.loss.point, Focal | DualFocal)
            and run.train.loss.point.gamma == 0
            and not is_fitted(run)
        ),
        "focal loss with gamma 0 is cross entropy: raise train.loss.point.gamma, or use "
        "train.loss.point.kind=cross_entropy",
    ),
    Rule(
        "warn",
        lambda run: (
            isinstance(run.train.loss.point, SigmoidFocal)
            and reads_loss_last(run)
            and (is_adjusted(run) or is_shifted(run))
        ),
        "logit adjustment is derived for a softmax, and on the sigmoids of sigmoid_focal it shifts each class's odds "
        "for itself: use train.loss.point.kind=focal, or class weights",
    ),
    Rule(
        "idle",
        lambda run: run.train.loss.hardmine.keep == 1 and run.train.loss.hardmine != HardMine(),
        "hardmine keeps every sample, so its other options have no effect: set train.loss.hardmine.keep below 1",
    ),
    Rule(
        "warn",
        lambda run: _is_mined(run) and is_mixed(run),
        "hardmine ranks mixed samples by their mixed loss, which is largest where two classes are mixed most evenly: "
        "use one of train.mixup and train.loss.hardmine",
    ),
    Rule(
        "warn",
        lambda run: _is_mined(run) and _fills_quotas(run) and not is_mixed(run),
        "a batch of pxk holds no more rows of a class than hardmine always keeps, so train.loss.hardmine leaves "
        "none out: lower its quota, or raise train.sampler.rows",
    ),
)
