"""Rules of closed-form classifiers, which take no gradient steps."""

from frostbench.heads.bodies.body import Identity
from frostbench.heads.head import kinds_that
from frostbench.training.augment.frofa import NoFrofa
from frostbench.training.losses.class_weights import ConstantSchedule
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.losses.label_smoothing import LabelSmoothing
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.rule import Applies, Rule, Verdict
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample
from frostbench.training.spec.optim import AdamW, Schedule
from frostbench.training.spec.stage import EarlyStop


def _stops_early(run: RunSpec) -> bool:
    """Whether early_stop sets an option that has no effect; its metric has one if it tunes the post-hoc adjustment."""
    stop, is_tuned = run.train.early_stop, run.posthoc.adjustment.rule == "tuned"
    is_given = stop.epoch is not None
    return is_given or stop.patience != EarlyStop().patience or (stop.metric != EarlyStop().metric and not is_tuned)


def _minimises(run: RunSpec) -> bool:
    """Whether the loss sets options that only matter if it is minimised."""
    loss = run.train.loss
    parts = (loss.point, loss.smoothing, loss.logit_adjustment)
    return parts != (CrossEntropy(), LabelSmoothing(), LogitAdjustment())


SOLVED = "a closed-form classifier such as logreg"
NOT_TAKEN: tuple[tuple[Verdict, Applies, str], ...] = (
    (
        "refuse",
        lambda run: not isinstance(run.head.body, Identity),
        f"{SOLVED} reads fixed vectors, so a body in front of it would stay untrained: use "
        "head.body.kind=identity, head.classifier.kind=linear, or second.kind=refit",
    ),
    (
        "refuse",
        lambda run: run.is_resampled,
        f"a sampler draws batches, but {SOLVED} reads all rows once: use train.loss.class_weight, or "
        "head.classifier.kind=linear",
    ),
    (
        "refuse",
        lambda run: not run.second.is_none,
        f"a second stage follows gradient steps, but {SOLVED} takes none: set second.kind=none or use "
        "head.classifier.kind=linear",
    ),
    (
        "refuse",
        lambda run: not isinstance(run.train.loss.weight_schedule, ConstantSchedule),
        f"class weights that change in training need gradient steps, but {SOLVED} takes none: set "
        "train.loss.weight_schedule.kind=constant",
    ),
    (
        "no effect",
        lambda run: (run.train.optim, run.train.schedule) != (AdamW(), Schedule()),
        f"{SOLVED} takes no gradient steps, so train.optim and train.schedule have no effect: leave them out",
    ),
    (
        "no effect",
        lambda run: run.train.ema > 0,
        f"{SOLVED} takes no gradient steps, so train.ema has no effect: set it to 0",
    ),
    ("no effect", _stops_early, f"{SOLVED} has no epochs, so train.early_stop has no effect: leave it out"),
    (
        "no effect",
        lambda run: not run.train.augment.is_neutral,
        f"{SOLVED} uses the training rows unchanged, so train.augment has no effect: set its options to 0",
    ),
    (
        "no effect",
        lambda run: not isinstance(run.train.frofa, NoFrofa),
        f"{SOLVED} uses the training rows unchanged, so train.frofa has no effect: set its kind to none",
    ),
    (
        "no effect",
        lambda run: run.train.loss.point_weight != 1,
        f"{SOLVED} minimises only the point loss, so train.loss.point_weight has no effect: set it to 1",
    ),
)
"""Options that a closed-form classifier does not use: verdict, whether a run sets one, and sentence."""


def _not_taken(verdict: Verdict, uses: Applies, sentence: str) -> Rule:
    return Rule(verdict, lambda run: run.head.classifier.is_closed_form and uses(run), sentence)


SOLVED_RULES: tuple[Rule, ...] = (
    *(_not_taken(*option) for option in NOT_TAKEN),
    Rule(
        "no effect",
        lambda run: run.is_fitted and _minimises(run),
        f"{kinds_that(lambda kind: not kind.minimises_loss)} do not minimise train.loss, so its point, smoothing and "
        "logit_adjustment have no effect: use posthoc.adjustment, or head.classifier.kind=logreg",
    ),
    Rule(
        "no effect",
        lambda run: run.is_weighted and not run.head.classifier.weighs_classes,
        "this classifier fits each class separately, so class weights have no effect: set "
        "train.loss.class_weight.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: not run.head.classifier.reads_rows and not isinstance(run.train.oversample, NoOversample),
        "this classifier reads no training rows, so train.oversample has no effect: set its kind to none",
    ),
)
