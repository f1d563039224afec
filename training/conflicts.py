"""Which choices do not go together: one table, read by the command line and the app alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from heads.body import Identity
from heads.logreg import LogisticRegression
from training.losses.hardmine import HardMine
from training.optim import AdamW, Schedule
from training.run import EarlyStop, RunSpec
from training.weights import EffectiveWeight, InverseWeight, NoWeight


@dataclass(frozen=True)
class Rule:
    """A combination and what there is to say about it.

    Attributes:
        verdict: refuse where it has no meaning, warn where it has one that is rarely meant.
        applies: whether a run has the combination.
        sentence: what is wrong and what to do.
    """

    verdict: Literal["refuse", "warn"]
    applies: Callable[[RunSpec], bool]
    sentence: str


def _solved(run: RunSpec) -> bool:
    return isinstance(run.head.classifier, LogisticRegression)


def _adjusted(run: RunSpec) -> bool:
    return run.train.loss.logit_adjustment.tau > 0


def _weighted(run: RunSpec) -> bool:
    return not isinstance(run.train.loss.class_weight, NoWeight)


def _unread_beta(weight: object) -> bool:
    return isinstance(weight, EffectiveWeight) and weight.beta_rule == "auto" and weight.beta != EffectiveWeight().beta


RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: _solved(run) and not isinstance(run.head.body, Identity),
        "logreg is solved on fixed vectors, so a body in front of it would stay untrained: use head.body.kind=identity "
        "or head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _solved(run) and run.train.loss.hardmine.keep < 1,
        "hardmine chooses samples batch by batch and logreg has no batches: set train.loss.hardmine.keep=1 or use "
        "head.classifier.kind=linear",
    ),
    Rule(
        "warn",
        lambda run: _solved(run) and (run.train.optim, run.train.schedule) != (AdamW(), Schedule()),
        "logreg is solved, so train.optim and train.schedule have no effect on it",
    ),
    Rule(
        "warn",
        lambda run: _solved(run) and run.train.early_stop != EarlyStop(),
        "logreg is solved, so train.early_stop has no effect on it",
    ),
    Rule(
        "warn",
        lambda run: _adjusted(run) and _weighted(run) and run.train.loss.logit_adjustment.prior == "raw",
        "logit adjustment by the raw prior and class weights both correct the prior, and recall of frequent classes "
        "drops: use train.loss.logit_adjustment.prior=effective, or one of the two alone",
    ),
    Rule(
        "warn",
        lambda run: (
            _adjusted(run)
            and isinstance(run.train.loss.class_weight, InverseWeight)
            and run.train.loss.logit_adjustment.prior == "effective"
        ),
        "inverse class weights leave a uniform effective prior, so logit adjustment by it changes nothing: use one of "
        "the two",
    ),
    Rule(
        "warn",
        lambda run: (
            (_adjusted(run) or run.posthoc.adjustment.tau > 0)
            and run.train.loss.smoothing.epsilon > 0
            and run.train.loss.smoothing.spread == "uniform"
        ),
        "uniform label smoothing bounds the logit gaps, and logit adjustment then flips confident predictions of "
        "frequent classes: use train.loss.smoothing.spread=prior or train.loss.smoothing.epsilon=0",
    ),
    Rule(
        "warn",
        lambda run: _adjusted(run) and run.posthoc.adjustment.tau > 0,
        "logit adjustment is applied in training and again after it: use one of train.loss.logit_adjustment.tau and "
        "posthoc.adjustment.tau",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.train.loss.class_weight, InverseWeight) and run.posthoc.adjustment.tau > 0,
        "inverse class weights leave a uniform prior in the logits, so posthoc.adjustment changes nothing: use one of "
        "the two",
    ),
    Rule(
        "warn",
        lambda run: run.train.loss.hardmine.keep == 1 and run.train.loss.hardmine != HardMine(),
        "hardmine keeps every sample, so its other options have no effect: set train.loss.hardmine.keep below 1",
    ),
    Rule(
        "warn",
        lambda run: not _adjusted(run) and run.train.loss.logit_adjustment.prior != "effective",
        "logit adjustment has strength 0, so its prior has no effect: set train.loss.logit_adjustment.tau above 0",
    ),
    Rule(
        "warn",
        lambda run: run.train.loss.smoothing.epsilon == 0 and run.train.loss.smoothing.spread != "uniform",
        "label smoothing moves nothing, so its spread has no effect: set train.loss.smoothing.epsilon above 0",
    ),
    Rule(
        "warn",
        lambda run: _unread_beta(run.train.loss.class_weight),
        "beta_rule=auto takes beta from the number of rows, so the beta given has no effect: leave it out, or set "
        "train.loss.class_weight.beta_rule=fixed",
    ),
    Rule(
        "warn",
        lambda run: run.train.loss.hardmine.keep < 1 and run.posthoc.calibration.kind == "none",
        "hardmine distorts probabilities: set posthoc.calibration.kind=temperature",
    ),
)


def check(run: RunSpec, rules: Sequence[Rule] = RULES) -> tuple[str, ...]:
    """Warnings for a run.

    Raises:
        ValueError: a combination has no meaning; the message holds every such rule's sentence.
    """
    met = [rule for rule in rules if rule.applies(run)]
    refused = [rule.sentence for rule in met if rule.verdict == "refuse"]
    if refused:
        raise ValueError("options must go together, however: " + "; ".join(refused) + ".")
    return tuple(rule.sentence for rule in met)


def notes_for(run: RunSpec, rows: int) -> tuple[str, ...]:
    """What is to be said about a run on that many training rows.

    >>> notes_for(RunSpec.model_validate({"train": {"schedule": {"epochs": 10}}}), 640)
    ('train.schedule.epochs=10 becomes 100, for min_steps asks for 1000 steps and 640 rows give 10 an epoch',)
    """
    schedule = run.train.schedule
    epochs = schedule.epochs_for(rows)
    if _solved(run) or schedule.epochs == Schedule().epochs or epochs == schedule.epochs:
        return ()
    told = (
        f"train.schedule.epochs={schedule.epochs} becomes {epochs}, for min_steps asks for {schedule.min_steps} steps"
    )
    return (f"{told} and {rows} rows give {-(-rows // schedule.batch_size)} an epoch",)
