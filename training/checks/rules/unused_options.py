"""Rules of options that have no effect next to other options."""

from frostbench.training.losses.class_weights import ConstantSchedule, DeferredSchedule, EffectiveWeight, PowerWeight
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.sampling.samplers import ClassBatches
from frostbench.training.spec.optim import Schedule
from frostbench.training.spec.stage import EarlyStop


def _has_unused_beta(weight: object) -> bool:
    if not isinstance(weight, EffectiveWeight):
        return False
    return weight.beta_rule != "fixed" and weight.beta != EffectiveWeight().beta


def _has_unused_ratio(weight: object) -> bool:
    if not isinstance(weight, EffectiveWeight):
        return False
    return weight.beta_rule != "ratio" and weight.ratio != EffectiveWeight().ratio


def _has_equal_weights(weight: object) -> bool:
    """Whether the options of a class weight give all classes the same weight."""
    if isinstance(weight, EffectiveWeight):
        return (weight.beta_rule == "fixed" and weight.beta == 0) or (weight.beta_rule == "ratio" and weight.ratio == 1)
    return isinstance(weight, PowerWeight) and weight.power == 0


def _never_comes(run: RunSpec) -> bool:
    """Whether deferred class weights would start after the last step."""
    schedule = run.train.loss.weight_schedule
    return run.is_weighted and isinstance(schedule, DeferredSchedule) and schedule.start == 1


def _has_fixed_epoch(run: RunSpec) -> bool:
    """Whether the epoch is fixed, but options to choose it are set as well."""
    stop, is_tuned = run.train.early_stop, run.posthoc.adjustment.rule == "tuned"
    if stop.epoch is None or run.second.reads_early_stop:
        return False
    return stop.patience != EarlyStop().patience or (stop.metric != EarlyStop().metric and not is_tuned)


UNUSED_RULES: tuple[Rule, ...] = (
    Rule(
        "no effect",
        lambda run: _has_unused_beta(run.train.loss.class_weight),
        "beta_rule=auto and ratio compute beta from the class sizes, so the given beta has no effect: leave it out, or "
        "set train.loss.class_weight.beta_rule=fixed",
    ),
    Rule(
        "no effect",
        lambda run: _has_unused_ratio(run.train.loss.class_weight),
        "the weight ratio is used only with beta_rule=ratio, so the given ratio has no effect: leave it out, or set "
        "train.loss.class_weight.beta_rule=ratio",
    ),
    Rule(
        "no effect",
        lambda run: _has_equal_weights(run.train.loss.class_weight),
        "class weights of power 0, beta 0 or ratio 1 are equal for all classes: set train.loss.class_weight.kind=none, "
        "or another value",
    ),
    Rule(
        "no effect",
        lambda run: not run.is_weighted and run.train.loss.count != "images",
        "without class weights, the counted unit has no effect: choose a train.loss.class_weight, or set "
        "train.loss.count=images",
    ),
    Rule(
        "no effect",
        lambda run: (
            not run.is_weighted
            and not isinstance(run.train.loss.weight_schedule, ConstantSchedule)
            and not run.is_solved
        ),
        "without class weights, their schedule has no effect: choose a train.loss.class_weight, or set "
        "train.loss.weight_schedule.kind=constant",
    ),
    Rule(
        "refuse",
        _never_comes,
        "class weights deferred to the end of training never take effect: set train.loss.weight_schedule.start below "
        "1, or train.loss.class_weight.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: run.posthoc.adjustment.rule == "tuned" and run.posthoc.adjustment.tau != 0,
        "rule=tuned chooses tau on the validation rows, so the given tau has no effect: leave it out, or set "
        "posthoc.adjustment.rule=fixed",
    ),
    Rule(
        "no effect",
        lambda run: (
            run.train.early_stop.metric == "last"
            and run.train.early_stop.patience != EarlyStop().patience
            and not run.is_solved
        ),
        "metric=last never stops early, so train.early_stop.patience has no effect: leave it out, or choose another "
        "metric",
    ),
    Rule(
        "no effect",
        lambda run: _has_fixed_epoch(run) and not run.is_solved,
        "train.early_stop.epoch is fixed, so train.early_stop.metric and patience have no effect: leave them out, or "
        "set train.early_stop.epoch=null",
    ),
    Rule(
        "warn",
        lambda run: (
            isinstance(run.train.sampler, ClassBatches) and run.train.schedule.batch_size != Schedule().batch_size
        ),
        "a pxk batch has `classes` times `rows` rows, so train.schedule.batch_size affects only min_steps and a second "
        "stage: set train.sampler.classes and train.sampler.rows",
    ),
)
