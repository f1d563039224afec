"""Rules that several methods share, made for each by the name of its field or kind."""

from typing import TYPE_CHECKING

from frostbench.training.rule import Rule

# A run holds the methods, and these their rules.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def _is_on(run: "RunSpec", field: str) -> bool:
    return not getattr(run.train.loss, field).is_neutral


def _is_point(run: "RunSpec", kind: str) -> bool:
    return run.train.loss.point.kind == kind and not run.train.loss.point.is_neutral


def shapes_layers(field: str) -> tuple[Rule, ...]:
    """Return the rules of a term that shapes the layers in front of the classifier."""
    return (
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_bare,
            f"{field} shapes the layers in front of the classifier and a head without a body has none: use "
            f"head.body.kind=mlp or train.loss.{field}.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_solved,
            f"{field} shapes the layers in front of the classifier and logreg is solved on fixed vectors, as every "
            f"classifier without steps is: use head.classifier.kind=linear with head.body.kind=mlp, or "
            f"train.loss.{field}.weight=0",
        ),
    )


def corrects_confidence(field: str) -> tuple[Rule, ...]:
    """Return the rules of a term that draws the confidence of a batch to how often it is right."""
    return (
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_solved,
            f"{field} compares the rows of a batch and a solved classifier such as logreg has no batches: use "
            f"head.classifier.kind=linear, or train.loss.{field}.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.train.loss.point_weight == 0 and not run.is_solved,
            f"{field} corrects the confidence of a classifier that the point loss trains: raise "
            f"train.loss.point_weight, or set train.loss.{field}.weight=0",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run, field) and (run.is_adjusted or run.is_weighted),
            f"{field} draws predictions to the classes as they are drawn, and logit adjustment and class weights draw "
            "them elsewhere: use one of them",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run, field) and not run.train.loss.point.is_softmax,
            f"{field} reads the probabilities of a softmax, and the point loss trains a sigmoid for each class: use "
            "train.loss.point.kind=focal",
        ),
    )


def bounds_gaps(kind: str) -> Rule:
    """Return the rule of a point loss that bounds how far logits lie apart."""
    return Rule(
        "warn",
        lambda run: _is_point(run, kind) and run.train.loss.smoothing.epsilon > 0 and not run.is_fitted,
        f"label smoothing already bounds how far logits lie apart, as {kind} does: use one of train.loss.smoothing and "
        f"train.loss.point.kind={kind}",
    )


def margin_binds(kind: str) -> Rule:
    """Return the rule of a point loss whose margin may be as wide as any gap between two logits can be."""
    return Rule(
        "no effect",
        lambda run: _is_point(run, kind) and 2 * run.largest_logit <= getattr(run.train.loss.point, "margin", 0.0),
        f"logits of a cosine classifier differ by at most twice its scale, so a margin of {kind} of that size "
        "penalises nothing and the point loss is cross entropy: lower train.loss.point.margin, or raise "
        "head.classifier.scale",
    )
