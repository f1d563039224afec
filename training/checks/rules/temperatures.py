"""Rules of VACE: temperatures of the classes."""

from frostbench.training.checks.rules.classifiers import kinds_that
from frostbench.training.checks.rules.properties import is_fitted, is_logreg, is_solved
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.vace import Vace
from frostbench.training.run import RunSpec


def _vace(run: RunSpec) -> Vace:
    return run.train.loss.vace


def _is_tempered(run: RunSpec) -> bool:
    return _vace(run).strength > 0


def _is_controlled(run: RunSpec) -> bool:
    """Whether the temperatures act on weight decay alone."""
    return _is_tempered(run) and _vace(run).acts_on == "decay"


def _has_linear(run: RunSpec) -> bool:
    return run.head.classifier.is_linear


def _is_free(run: RunSpec) -> bool:
    """Whether nothing ties the weights of a linear classifier, which then undoes any temperature."""
    return _has_linear(run) and run.train.optim.weight_decay == 0 and _vace(run).acts_on == "logits"


def _has_second(run: RunSpec) -> bool:
    return not run.second.is_none


def _ignores_temperatures(run: RunSpec) -> bool:
    """Whether the classifier minimises no loss that temperatures could divide the logits of."""
    return is_fitted(run) and _is_tempered(run)


TEMPERATURE_RULES: tuple[Rule, ...] = (
    Rule(
        "idle",
        lambda run: _vace(run).strength == 0 and _vace(run) != Vace(),
        "with train.loss.vace.strength=0 there are no class temperatures, so the other options of vace have no effect: "
        "raise it",
    ),
    Rule(
        "idle",
        _ignores_temperatures,
        f"{kinds_that(lambda kind: not kind.minimises_loss)} minimise no loss, so train.loss.vace has no effect on "
        "them: use head.classifier.kind=logreg",
    ),
    Rule(
        "refuse",
        lambda run: _is_tempered(run) and is_logreg(run) and not _vace(run).is_fixed,
        "a running scatter needs batches and logreg has none: set train.loss.vace.scatter=input_exact, or use "
        "head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _is_controlled(run) and is_logreg(run),
        "on logreg, whose penalty is part of the objective, vace on the logits and on weight decay have one optimum: "
        "set train.loss.vace.acts_on=logits, or use head.classifier.kind=linear",
    ),
    Rule(
        "refuse",
        lambda run: _is_controlled(run) and not is_solved(run) and not (_has_linear(run) and _vace(run).is_fixed),
        "weight decay by class acts on the rows of a linear classifier and by fixed temperatures: use "
        "head.classifier.kind=linear with train.loss.vace.scatter=input_exact or frequency",
    ),
    Rule(
        "idle",
        lambda run: _is_controlled(run) and run.train.optim.weight_decay == 0,
        "train.loss.vace.acts_on=decay multiplies weight decay, of which there is none: raise train.optim.weight_decay",
    ),
    Rule(
        "refuse",
        lambda run: _is_tempered(run) and not is_solved(run) and not _has_linear(run) and _has_second(run),
        "class temperatures are folded into a linear classifier before a second stage, which cosines do not allow: set "
        "second.kind=none, or use head.classifier.kind=linear",
    ),
    Rule(
        "warn",
        lambda run: _is_tempered(run) and not is_solved(run) and _is_free(run),
        "without weight decay a linear classifier undoes class temperatures, so vace has the optimum of cross entropy "
        "and changes the way there alone: raise train.optim.weight_decay, or use head.classifier.kind=cosine",
    ),
)
