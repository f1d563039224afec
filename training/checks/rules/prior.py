"""Rules of options that correct the class prior, and of those that correct it twice."""

from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import (
    draws_evenly,
    is_adjusted,
    is_fitted,
    is_resampled,
    is_shifted,
    is_smoothed,
    is_weighted,
    last_classifier,
    reads_loss_last,
    sees_evenly,
    weighs_evenly,
)
from frostbench.training.sampling.oversample import NoOversample
from frostbench.training.sampling.samplers import ClassBatches


def _by_raw(run: RunSpec) -> bool:
    return is_adjusted(run) and run.train.loss.logit_adjustment.prior == "raw" and not is_fitted(run)


def _by_effective(run: RunSpec) -> bool:
    return is_adjusted(run) and run.train.loss.logit_adjustment.prior == "effective" and not is_fitted(run)


def _is_taken_out(run: RunSpec) -> bool:
    """Whether training removes the whole prior from the final logits."""
    is_the_loss_prior = _by_effective(run) or (_by_raw(run) and not is_weighted(run) and not is_resampled(run))
    return reads_loss_last(run) and is_the_loss_prior and run.train.loss.logit_adjustment.tau == 1


def _shifts_by_number(run: RunSpec) -> bool:
    """Whether the prior is subtracted after training with a fixed strength."""
    return run.posthoc.adjustment.rule == "fixed" and run.posthoc.adjustment.tau > 0


PRIOR_RULES: tuple[Rule, ...] = (
    Rule(
        "warn",
        lambda run: _by_raw(run) and is_weighted(run),
        "logit adjustment by the raw prior and class weights both correct the prior, so recall of frequent classes "
        "drops: use train.loss.logit_adjustment.prior=effective, or one of the two alone",
    ),
    Rule(
        "warn",
        lambda run: _by_raw(run) and is_resampled(run),
        "logit adjustment by the raw prior and a sampler that favours rare classes both correct the prior: use "
        "train.loss.logit_adjustment.prior=effective, or one of the two alone",
    ),
    Rule(
        "warn",
        lambda run: is_weighted(run) and is_resampled(run),
        "class weights and a sampler that favours rare classes both correct the prior: use one of "
        "train.loss.class_weight and train.sampler",
    ),
    Rule(
        "warn",
        lambda run: is_resampled(run) and not isinstance(run.train.oversample, NoOversample),
        "train.oversample and a sampler that favours rare classes both show rare classes more often: use one of them",
    ),
    Rule(
        "warn",
        lambda run: is_adjusted(run) and run.head.classifier.favours_rare,
        "logit adjustment and margins that are larger for rarer classes both favour rare classes: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: _by_effective(run) and weighs_evenly(run) and sees_evenly(run),
        "inverse class weights leave a uniform effective prior, so logit adjustment by it has no effect: use one of "
        "them",
    ),
    Rule(
        "no effect",
        lambda run: _by_effective(run) and draws_evenly(run) and sees_evenly(run),
        "a sampler that draws all classes equally often leaves a uniform effective prior, so logit adjustment by it "
        "has no effect: use one of them",
    ),
    Rule(
        "warn",
        lambda run: _by_effective(run) and isinstance(run.train.sampler, ClassBatches) and not is_weighted(run),
        "pxk draws classes almost equally often, so logit adjustment by the effective prior changes little: use one "
        "of them",
    ),
    Rule(
        "warn",
        lambda run: is_smoothed(run) and reads_loss_last(run) and (is_adjusted(run) or _shifts_by_number(run)),
        "uniform label smoothing bounds the logit gaps, and logit adjustment then flips confident predictions of "
        "frequent classes: use train.loss.smoothing.spread=prior or train.loss.smoothing.epsilon=0",
    ),
    Rule(
        "warn",
        lambda run: is_adjusted(run) and is_shifted(run) and reads_loss_last(run) and not _is_taken_out(run),
        "logit adjustment is applied both during and after training: use one of train.loss.logit_adjustment.tau and "
        "posthoc.adjustment",
    ),
    Rule(
        "no effect",
        lambda run: is_shifted(run) and _is_taken_out(run),
        "logit adjustment of tau 1 in training leaves a uniform prior in the logits, so posthoc.adjustment has no "
        "effect: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: (
            weighs_evenly(run)
            and sees_evenly(run)
            and is_shifted(run)
            and run.second.keeps_class_weights
            and not is_adjusted(run)
            and last_classifier(run).knows_prior
        ),
        "inverse class weights leave a uniform prior in the logits, so posthoc.adjustment has no effect: use one of "
        "them",
    ),
    Rule(
        "no effect",
        lambda run: (
            draws_evenly(run) and sees_evenly(run) and is_shifted(run) and run.second.is_none and not is_adjusted(run)
        ),
        "a sampler that draws all classes equally often leaves a uniform prior in the logits, so posthoc.adjustment "
        "has no effect: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: is_shifted(run) and run.second.keeps_class_weights and not last_classifier(run).knows_prior,
        "the logits of this classifier contain no class prior, so posthoc.adjustment has no effect: set its rule to "
        "fixed and its tau to 0",
    ),
)
