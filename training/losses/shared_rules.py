"""Rules shared by several methods, built from the name of the field or kind."""

from typing import TYPE_CHECKING

from frostbench.training.rule import Rule

# The run imports the methods, and the methods import this file.
if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def _is_on(run: "RunSpec", field: str) -> bool:
    return not getattr(run.train.loss, field).is_neutral


def _is_point(run: "RunSpec", kind: str) -> bool:
    return run.train.loss.point.kind == kind and not run.train.loss.point.is_neutral


def shapes_layers(field: str) -> tuple[Rule, ...]:
    """Return the rules of a term that trains the layers before the classifier."""
    return (
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_bare,
            f"{field} trains the layers before the classifier, and a head without a body has none: use "
            f"head.body.kind=mlp, or train.loss.{field}.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_solved,
            f"{field} trains the layers before the classifier, and closed-form classifiers such as logreg are fitted "
            "to fixed vectors: use head.classifier.kind=linear with head.body.kind=mlp, or "
            f"train.loss.{field}.weight=0",
        ),
    )


def corrects_confidence(field: str) -> tuple[Rule, ...]:
    """Return the rules of a term that matches the confidence of a batch to its accuracy."""
    return (
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.is_solved,
            f"{field} compares the rows of a batch, and closed-form classifiers such as logreg have no batches: use "
            f"head.classifier.kind=linear, or train.loss.{field}.weight=0",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run, field) and run.train.loss.point_weight == 0 and not run.is_solved,
            f"{field} corrects the confidence of a classifier trained by the point loss: raise "
            f"train.loss.point_weight, or set train.loss.{field}.weight=0",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run, field) and (run.is_adjusted or run.is_weighted),
            f"{field} pulls predictions to the class shares of the batch, but logit adjustment and class weights pull "
            "them to other shares: use one of them",
        ),
        Rule(
            "warn",
            lambda run: _is_on(run, field) and not run.train.loss.point.is_softmax,
            f"{field} uses softmax probabilities, but the point loss trains one sigmoid per class: use "
            "train.loss.point.kind=focal",
        ),
    )


def bounds_gaps(kind: str) -> Rule:
    """Return the rule of a point loss that bounds the gaps between logits."""
    return Rule(
        "warn",
        lambda run: _is_point(run, kind) and run.train.loss.smoothing.epsilon > 0 and not run.is_fitted,
        f"label smoothing already bounds the gaps between logits, as {kind} does: use one of train.loss.smoothing and "
        f"train.loss.point.kind={kind}",
    )


def margin_binds(kind: str) -> Rule:
    """Return the rule of a point loss whose margin may exceed every possible gap between two logits."""
    return Rule(
        "no effect",
        lambda run: _is_point(run, kind) and 2 * run.largest_logit <= getattr(run.train.loss.point, "margin", 0.0),
        f"logits of a cosine classifier differ by at most twice its scale, so the margin of {kind} penalises "
        "nothing and the point loss is cross entropy: lower train.loss.point.margin, or raise "
        "head.classifier.scale",
    )
