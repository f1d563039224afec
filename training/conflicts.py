"""Which choices do not go together: one table, read by the command line and the app alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from heads.body import Identity
from heads.logreg import LogisticRegression
from training.losses.hardmine import HardMine
from training.losses.supcon import SupCon
from training.optim import AdamW, Schedule
from training.run import RunSpec
from training.stage_spec import EarlyStop
from training.second import Crt
from training.weights import EffectiveWeight, InverseWeight, NoWeight


@dataclass(frozen=True)
class Rule:
    """A combination and what there is to say about it.

    Attributes:
        verdict: refuse where it has no meaning, idle where an option has no effect, warn where the combination has a
            meaning that is rarely meant.
        applies: whether a run has the combination.
        sentence: what is wrong and what to do.
    """

    verdict: Literal["refuse", "idle", "warn"]
    applies: Callable[[RunSpec], bool]
    sentence: str


def _solved(run: RunSpec) -> bool:
    return isinstance(run.head.classifier, LogisticRegression)


def _adjusted(run: RunSpec) -> bool:
    return run.train.loss.logit_adjustment.tau > 0


def _weighted(run: RunSpec) -> bool:
    return not isinstance(run.train.loss.class_weight, NoWeight)


def _bare(run: RunSpec) -> bool:
    """Whether a classifier that is stepped has no body in front of it."""
    return isinstance(run.head.body, Identity) and not _solved(run)


def _contrasted(run: RunSpec) -> bool:
    return run.train.loss.supcon.weight > 0


def _mixed(run: RunSpec) -> bool:
    return run.train.mixup.alpha > 0


def _again(run: RunSpec) -> bool:
    """Whether a second stage trains the classifier, which then carries nothing of the first stage's loss."""
    return isinstance(run.second, Crt)


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
        "idle",
        lambda run: _solved(run) and (run.train.optim, run.train.schedule) != (AdamW(), Schedule()),
        "logreg is solved, so train.optim and train.schedule have no effect on it",
    ),
    Rule(
        "idle",
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
        "idle",
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
            (_adjusted(run) or (run.posthoc.adjustment.tau > 0 and not _again(run)))
            and run.train.loss.smoothing.epsilon > 0
            and run.train.loss.smoothing.spread == "uniform"
        ),
        "uniform label smoothing bounds the logit gaps, and logit adjustment then flips confident predictions of "
        "frequent classes: use train.loss.smoothing.spread=prior or train.loss.smoothing.epsilon=0",
    ),
    Rule(
        "warn",
        lambda run: _adjusted(run) and run.posthoc.adjustment.tau > 0 and not _again(run),
        "logit adjustment is applied in training and again after it: use one of train.loss.logit_adjustment.tau and "
        "posthoc.adjustment.tau",
    ),
    Rule(
        "idle",
        lambda run: (
            isinstance(run.train.loss.class_weight, InverseWeight)
            and run.posthoc.adjustment.tau > 0
            and not _again(run)
        ),
        "inverse class weights leave a uniform prior in the logits, so posthoc.adjustment changes nothing: use one of "
        "the two",
    ),
    Rule(
        "idle",
        lambda run: run.train.loss.hardmine.keep == 1 and run.train.loss.hardmine != HardMine(),
        "hardmine keeps every sample, so its other options have no effect: set train.loss.hardmine.keep below 1",
    ),
    Rule(
        "idle",
        lambda run: not _adjusted(run) and run.train.loss.logit_adjustment.prior != "effective",
        "logit adjustment has strength 0, so its prior has no effect: set train.loss.logit_adjustment.tau above 0",
    ),
    Rule(
        "idle",
        lambda run: run.train.loss.smoothing.epsilon == 0 and run.train.loss.smoothing.spread != "uniform",
        "label smoothing moves nothing, so its spread has no effect: set train.loss.smoothing.epsilon above 0",
    ),
    Rule(
        "idle",
        lambda run: _unread_beta(run.train.loss.class_weight),
        "beta_rule=auto takes beta from the number of rows, so the beta given has no effect: leave it out, or set "
        "train.loss.class_weight.beta_rule=fixed",
    ),
    Rule(
        "warn",
        lambda run: run.train.loss.hardmine.keep < 1 and run.posthoc.calibration.kind == "none" and not _again(run),
        "hardmine distorts probabilities: set posthoc.calibration.kind=temperature",
    ),
    Rule(
        "idle",
        lambda run: _solved(run) and (_mixed(run) or not run.train.augment.is_neutral),
        "logreg is solved on the training rows as they are, so train.augment and train.mixup have no effect on it",
    ),
    Rule(
        "idle",
        lambda run: not _mixed(run) and run.train.mixup.where != "input",
        "mixup mixes nothing, so its place has no effect: set train.mixup.alpha above 0",
    ),
    Rule(
        "idle",
        lambda run: _mixed(run) and run.train.mixup.where == "hidden" and _bare(run),
        "a head without a body has no hidden layer, so train.mixup.where=hidden mixes the input: use "
        "head.body.kind=mlp, or train.mixup.where=input",
    ),
    Rule(
        "warn",
        lambda run: _mixed(run) and run.train.loss.hardmine.keep < 1,
        "hardmine ranks mixed samples by their mixed loss, which is largest where two classes are mixed most evenly: "
        "use one of train.mixup and train.loss.hardmine",
    ),
    Rule(
        "refuse",
        lambda run: _contrasted(run) and _bare(run),
        "supcon shapes the layers in front of the classifier and a head without a body has none: use "
        "head.body.kind=mlp or train.loss.supcon.weight=0",
    ),
    Rule(
        "refuse",
        lambda run: _contrasted(run) and _solved(run),
        "supcon shapes the layers in front of the classifier and logreg is solved on fixed vectors: use "
        "head.classifier.kind=linear with head.body.kind=mlp, or train.loss.supcon.weight=0",
    ),
    Rule(
        "idle",
        lambda run: not _contrasted(run) and run.train.loss.supcon != SupCon(),
        "supcon has weight 0, so its other options have no effect: set train.loss.supcon.weight above 0",
    ),
    Rule(
        "refuse",
        lambda run: _again(run) and _solved(run),
        "crt trains the classifier anew by gradient steps and logreg is solved: use head.classifier.kind=linear or "
        "second.kind=none",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Crt) and run.second.init == "fresh" and _bare(run),
        "a head without a body keeps nothing of its first stage under crt with a fresh classifier: use "
        "head.body.kind=mlp, or second.init=keep",
    ),
    Rule(
        "warn",
        lambda run: _again(run) and _adjusted(run),
        "crt trains the classifier anew without logit adjustment, so train.loss.logit_adjustment acts on the first "
        "stage alone: set its tau to 0, or second.kind=none",
    ),
    Rule(
        "idle",
        lambda run: (
            isinstance(run.second, Crt) and run.second.sampler == "class_balanced" and run.posthoc.adjustment.tau > 0
        ),
        "crt with balanced classes leaves a uniform prior in the logits, so posthoc.adjustment has no effect: use one "
        "of the two",
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
