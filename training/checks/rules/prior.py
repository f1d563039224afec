"""Rules of options that correct the class prior, and of combinations that correct it twice."""

from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample
from frostbench.training.sampling.samplers import ClassBatches


def _by_raw(run: RunSpec) -> bool:
    return run.is_adjusted and run.train.loss.logit_adjustment.prior == "raw" and not run.is_fitted


def _by_effective(run: RunSpec) -> bool:
    return run.is_adjusted and run.train.loss.logit_adjustment.prior == "effective" and not run.is_fitted


def _is_taken_out(run: RunSpec) -> bool:
    """Whether training removes the whole prior from the final logits."""
    is_the_loss_prior = _by_effective(run) or (_by_raw(run) and not run.is_weighted and not run.is_resampled)
    return run.reads_loss_last and is_the_loss_prior and run.train.loss.logit_adjustment.tau == 1


def _shifts_by_number(run: RunSpec) -> bool:
    """Whether a fixed multiple of the log prior is subtracted from the logits after training."""
    return run.posthoc.adjustment.rule == "fixed" and run.posthoc.adjustment.tau > 0


PRIOR_RULES: tuple[Rule, ...] = (
    Rule(
        "warn",
        lambda run: _by_raw(run) and run.is_weighted,
        "class weights and logit adjustment by the raw prior both correct the prior, so recall of frequent classes "
        "drops: use train.loss.logit_adjustment.prior=effective, or one of the two alone",
    ),
    Rule(
        "warn",
        lambda run: _by_raw(run) and run.is_resampled,
        "a sampler that favours rare classes and logit adjustment by the raw prior both correct the prior: use "
        "train.loss.logit_adjustment.prior=effective, or one of the two alone",
    ),
    Rule(
        "warn",
        lambda run: run.is_weighted and run.is_resampled,
        "class weights and a sampler that favours rare classes both correct the prior: use one of "
        "train.loss.class_weight and train.sampler",
    ),
    Rule(
        "warn",
        lambda run: run.is_resampled and not isinstance(run.train.oversample, NoOversample),
        "train.oversample and a sampler that favours rare classes both show rare classes more often: use one of them",
    ),
    Rule(
        "warn",
        lambda run: run.is_adjusted and run.head.classifier.favours_rare,
        "logit adjustment and margins that are larger for rarer classes both favour rare classes: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: _by_effective(run) and run.weighs_evenly and run.sees_evenly,
        "inverse class weights leave a uniform effective prior, so logit adjustment by it has no effect: use one of "
        "them",
    ),
    Rule(
        "no effect",
        lambda run: _by_effective(run) and run.draws_evenly and run.sees_evenly,
        "a sampler that draws all classes equally often leaves a uniform effective prior, so logit adjustment by it "
        "has no effect: use one of them",
    ),
    Rule(
        "warn",
        lambda run: _by_effective(run) and isinstance(run.train.sampler, ClassBatches) and not run.is_weighted,
        "pxk draws classes almost equally often, so logit adjustment by the effective prior changes little: use one "
        "of them",
    ),
    Rule(
        "warn",
        lambda run: run.is_smoothed and run.reads_loss_last and (run.is_adjusted or _shifts_by_number(run)),
        "uniform label smoothing bounds the logit gaps, and logit adjustment then flips confident predictions of "
        "frequent classes: use train.loss.smoothing.spread=prior or train.loss.smoothing.epsilon=0",
    ),
    Rule(
        "warn",
        lambda run: run.is_adjusted and run.is_shifted and run.reads_loss_last and not _is_taken_out(run),
        "logit adjustment is applied both during and after training: use one of train.loss.logit_adjustment.tau and "
        "posthoc.adjustment",
    ),
    Rule(
        "no effect",
        lambda run: run.is_shifted and _is_taken_out(run),
        "logit adjustment of tau 1 in training leaves a uniform prior in the logits, so posthoc.adjustment has no "
        "effect: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: (
            run.weighs_evenly
            and run.sees_evenly
            and run.is_shifted
            and run.second.keeps_class_weights
            and not run.is_adjusted
            and run.last_classifier.knows_prior
        ),
        "inverse class weights leave a uniform prior in the logits, so posthoc.adjustment has no effect: use one of "
        "them",
    ),
    Rule(
        "no effect",
        lambda run: (
            run.draws_evenly and run.sees_evenly and run.is_shifted and run.second.is_none and not run.is_adjusted
        ),
        "a sampler that draws all classes equally often leaves a uniform prior in the logits, so posthoc.adjustment "
        "has no effect: use one of them",
    ),
    Rule(
        "no effect",
        lambda run: run.is_shifted and run.second.keeps_class_weights and not run.last_classifier.knows_prior,
        "the logits of this classifier contain no class prior, so posthoc.adjustment has no effect: set its rule to "
        "fixed and its tau to 0",
    ),
)
