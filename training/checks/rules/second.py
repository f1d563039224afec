"""Rules of the second stage."""

from frostbench.heads.stepped.linear import Linear
from frostbench.training.checks.rules.properties import is_adjusted, is_bare, is_solved, is_weighted, reads_loss_last
from frostbench.training.checks.rules.rule import Rule
from frostbench.training.losses.cross_entropy import CrossEntropy
from frostbench.training.run import RunSpec
from frostbench.training.second import Crt, Lws, Refit, TauNorm


def _calibrates(run: RunSpec) -> bool:
    """Whether the first stage minimises more, or else, than plain cross entropy on the labels as they are."""
    loss = run.train.loss
    is_changed = not isinstance(loss.point, CrossEntropy) or any(one.shapes_point for one in loss.active.values())
    return loss.point_weight > 0 and is_changed


SECOND_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: (
            isinstance(run.second, Lws | TauNorm) and not isinstance(run.head.classifier, Linear) and not is_solved(run)
        ),
        "lws and tau_norm change the lengths of a linear classifier's weights, and a cosine classifier's have none: "
        "use head.classifier.kind=linear, or second.kind=crt",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Crt) and run.second.init == "fresh" and is_bare(run),
        "a head without a body keeps nothing of its first stage under crt with a fresh classifier: use "
        "head.body.kind=mlp, or second.init=keep",
    ),
    Rule(
        "idle",
        lambda run: (
            isinstance(run.second, Crt | Lws)
            and run.second.epoch is not None
            and (run.second.metric != "as_first" or run.second.max_head_loss is not None)
        ),
        "second.epoch is kept whatever the selection rows say, so second.metric and second.max_head_loss have no "
        "effect: leave them out, or leave second.epoch out",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Refit) and is_bare(run),
        "a head without a body keeps nothing of its first stage under refit: use head.body.kind=mlp, or take "
        "second.classifier as head.classifier",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Crt | Refit) and is_adjusted(run) and not reads_loss_last(run),
        "crt and refit make the classifier anew without logit adjustment, so train.loss.logit_adjustment acts on the "
        "first stage alone: set its tau to 0, or second.kind=none",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Crt) and _calibrates(run),
        "crt trains the classifier by plain cross entropy, so train.loss.point, smoothing and what else shapes it act "
        "on the first stage alone: leave them out, or set second.kind=none",
    ),
    Rule(
        "warn",
        lambda run: isinstance(run.second, Lws | TauNorm) and (is_adjusted(run) or is_weighted(run)),
        "lws and tau_norm make up for class sizes, as logit adjustment and class weights did in the first stage: use "
        "one of the two",
    ),
)
