"""Rules of the terms beside the point loss: supcon, bcl, center and lade."""

from frostbench.training.checks.rules.properties import is_bare, is_mixed, is_solved, is_weighted
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.bcl import Bcl
from frostbench.training.losses.center import Center
from frostbench.training.losses.lade import Lade
from frostbench.training.losses.loss import LossSpec
from frostbench.training.losses.supcon import SupCon
from frostbench.training.run import RunSpec

Term = SupCon | Bcl | Center | Lade


def _term(loss: LossSpec, kind: str) -> Term:
    """The term of a loss with that kind."""
    terms: tuple[Term, ...] = (loss.supcon, loss.bcl, loss.center, loss.lade)
    return next(term for term in terms if term.kind == kind)


def _is_on(run: RunSpec, kind: str) -> bool:
    return _term(run.train.loss, kind).weight > 0


def _shaping(kind: str) -> tuple[Rule, ...]:
    """Rules of a term that shapes the layers in front of the classifier."""
    return (
        Rule(
            "refuse",
            lambda run: _is_on(run, kind) and is_bare(run),
            f"{kind} shapes the layers in front of the classifier and a head without a body has none: use "
            f"head.body.kind=mlp or train.loss.{kind}.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run, kind) and is_solved(run),
            f"{kind} shapes the layers in front of the classifier and logreg is solved on fixed vectors, as every "
            f"classifier without steps is: use head.classifier.kind=linear with head.body.kind=mlp, or "
            f"train.loss.{kind}.weight=0",
        ),
    )


def _switched_off(kind: str) -> Rule:
    """The rule of a term at weight 0."""
    return Rule(
        "idle",
        lambda run: not _is_on(run, kind) and _term(run.train.loss, kind) != _term(LossSpec(), kind),
        f"{kind} has weight 0, so its other options have no effect: set train.loss.{kind}.weight above 0",
    )


CONTRAST_RULES: tuple[Rule, ...] = (
    *(rule for kind in ("supcon", "bcl", "center") for rule in _shaping(kind)),
    *(_switched_off(kind) for kind in ("supcon", "bcl", "center", "lade")),
    Rule(
        "refuse",
        lambda run: _is_on(run, "lade") and is_solved(run),
        "lade fits the logits of a batch and a solved classifier such as logreg has no batches: use "
        "head.classifier.kind=linear, or train.loss.lade.weight=0",
    ),
    Rule(
        "refuse",
        lambda run: _is_on(run, "lade") and is_mixed(run),
        "lade needs rows of one class each and mixup makes rows of two: use one of train.loss.lade and train.mixup",
    ),
    Rule(
        "warn",
        lambda run: _is_on(run, "lade") and run.train.loss.logit_adjustment.tau != 1,
        "lade draws logits to where logit adjustment of tau 1 leaves them, and plain cross entropy pulls them back: "
        "set train.loss.logit_adjustment.tau=1",
    ),
    Rule(
        "warn",
        lambda run: _is_on(run, "supcon") and _is_on(run, "bcl"),
        "supcon and bcl are two forms of one contrast: use one of train.loss.supcon and train.loss.bcl",
    ),
    Rule(
        "idle",
        lambda run: _is_on(run, "supcon") and run.train.loss.supcon.class_weighted and not is_weighted(run),
        "all classes weigh alike, so train.loss.supcon.class_weighted has no effect: choose a train.loss.class_weight",
    ),
)
