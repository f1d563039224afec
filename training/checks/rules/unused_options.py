"""Rules of options that nothing reads beside the others chosen."""

from frostbench.training.losses.class_weights import ConstantSchedule, DeferredSchedule, EffectiveWeight, PowerWeight
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_solved, is_weighted
from frostbench.training.sampling.samplers import ClassBatches
from frostbench.training.spec.optim import Schedule
from frostbench.training.spec.stage import EarlyStop


def _unread_beta(weight: object) -> bool:
    if not isinstance(weight, EffectiveWeight):
        return False
    return weight.beta_rule != "fixed" and weight.beta != EffectiveWeight().beta


def _unread_ratio(weight: object) -> bool:
    if not isinstance(weight, EffectiveWeight):
        return False
    return weight.beta_rule != "ratio" and weight.ratio != EffectiveWeight().ratio


def _weighs_alike(weight: object) -> bool:
    """Whether a class weight has the number at which all classes weigh alike."""
    if isinstance(weight, EffectiveWeight):
        return (weight.beta_rule == "fixed" and weight.beta == 0) or (weight.beta_rule == "ratio" and weight.ratio == 1)
    return isinstance(weight, PowerWeight) and weight.power == 0


def _never_comes(run: RunSpec) -> bool:
    """Whether deferred class weights would act after the last step."""
    schedule = run.train.loss.weight_schedule
    return is_weighted(run) and isinstance(schedule, DeferredSchedule) and schedule.start == 1


def _is_told_the_epoch(run: RunSpec) -> bool:
    """Whether a given epoch leaves nothing to judge, and something is said of how to."""
    stop, is_tuned = run.train.early_stop, run.posthoc.adjustment.rule == "tuned"
    if stop.epoch is None or run.second.reads_early_stop:
        return False
    return stop.patience != EarlyStop().patience or (stop.metric != EarlyStop().metric and not is_tuned)


UNREAD_RULES: tuple[Rule, ...] = (
    Rule(
        "no effect",
        lambda run: _unread_beta(run.train.loss.class_weight),
        "beta_rule=auto and ratio find beta from the class sizes, so the beta given has no effect: leave it out, or "
        "set train.loss.class_weight.beta_rule=fixed",
    ),
    Rule(
        "no effect",
        lambda run: _unread_ratio(run.train.loss.class_weight),
        "the ratio of weights is read where beta_rule is ratio, so the ratio given has no effect: leave it out, or set "
        "train.loss.class_weight.beta_rule=ratio",
    ),
    Rule(
        "no effect",
        lambda run: _weighs_alike(run.train.loss.class_weight),
        "class weights of power 0, beta 0 or ratio 1 count all classes alike: set train.loss.class_weight.kind=none, "
        "or another number",
    ),
    Rule(
        "no effect",
        lambda run: not is_weighted(run) and run.train.loss.count != "images",
        "all classes weigh alike, so what is counted has no effect: choose a train.loss.class_weight, or set "
        "train.loss.count=images",
    ),
    Rule(
        "no effect",
        lambda run: (
            not is_weighted(run)
            and not isinstance(run.train.loss.weight_schedule, ConstantSchedule)
            and not is_solved(run)
        ),
        "all classes weigh alike, so when the weights act has no effect: choose a train.loss.class_weight, or set "
        "train.loss.weight_schedule.kind=constant",
    ),
    Rule(
        "refuse",
        _never_comes,
        "class weights deferred to the end of training never act: set train.loss.weight_schedule.start below 1, or "
        "train.loss.class_weight.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: run.posthoc.adjustment.rule == "tuned" and run.posthoc.adjustment.tau != 0,
        "rule=tuned finds tau on the selection rows, so the tau given has no effect: leave it out, or set "
        "posthoc.adjustment.rule=fixed",
    ),
    Rule(
        "no effect",
        lambda run: (
            run.train.early_stop.metric == "last"
            and run.train.early_stop.patience != EarlyStop().patience
            and not is_solved(run)
        ),
        "metric=last never stops early, so train.early_stop.patience has no effect: leave it out, or choose another "
        "metric",
    ),
    Rule(
        "no effect",
        lambda run: _is_told_the_epoch(run) and not is_solved(run),
        "the epoch that is kept is given, so train.early_stop.metric and patience have no effect: leave them out, or "
        "set train.early_stop.epoch=null",
    ),
    Rule(
        "warn",
        lambda run: (
            isinstance(run.train.sampler, ClassBatches) and run.train.schedule.batch_size != Schedule().batch_size
        ),
        "a batch of pxk has train.sampler.classes times rows rows, and train.schedule.batch_size counts only for "
        "min_steps and a second stage: set those of the sampler",
    ),
)
