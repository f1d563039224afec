"""Rules of what changes training rows: mixup, augmentation, frofa and oversampling."""

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.training.augment.frofa import NoFrofa, Posterize
from frostbench.training.augment.mixup import Mixup
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_bare, is_mixed, is_solved
from frostbench.training.sampling.oversample import NoOversample


def _changes_nothing(run: RunSpec) -> bool:
    """Whether frofa leaves every vector as it is."""
    frofa = run.train.frofa
    if isinstance(frofa, NoFrofa):
        return False
    return frofa.probability == 0 or (not isinstance(frofa, Posterize) and frofa.width == 0)


def _changes_rows(run: RunSpec) -> bool:
    """Whether training rows are changed, mixed or made up."""
    train = run.train
    is_changed = is_mixed(run) or not train.augment.is_neutral or not isinstance(train.frofa, NoFrofa)
    return is_changed or not isinstance(train.oversample, NoOversample)


def _unread_remix(mixup: Mixup) -> bool:
    plain = Mixup()
    return mixup.label_rule == "share" and (mixup.remix_kappa, mixup.remix_tau) != (plain.remix_kappa, plain.remix_tau)


MIXING_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: isinstance(run.head.body, AttentionPool) and _changes_rows(run),
        "attention_pool reads the tokens of an image, and mixup, augment, frofa and oversample change one vector an "
        "image: leave them out, or use head.body.kind=mlp",
    ),
    Rule(
        "refuse",
        lambda run: not isinstance(run.train.oversample, NoOversample) and run.train.loss.count == "groups",
        "rows that are made up belong to no group, so groups cannot be counted: set train.loss.count=images, or "
        "train.oversample.kind=none",
    ),
    Rule(
        "no effect",
        lambda run: not is_mixed(run) and run.train.mixup != Mixup(),
        "mixup mixes nothing, so its other options have no effect: set train.mixup.alpha above 0",
    ),
    Rule(
        "no effect",
        lambda run: is_mixed(run) and _unread_remix(run.train.mixup),
        "label_rule=share shares labels as vectors, so remix_kappa and remix_tau have no effect: set "
        "train.mixup.label_rule=remix",
    ),
    Rule(
        "no effect",
        lambda run: is_mixed(run) and run.train.mixup.where == "hidden" and is_bare(run),
        "a head without a body has no hidden layer, so train.mixup.where=hidden mixes the input: use "
        "head.body.kind=mlp, or train.mixup.where=input",
    ),
    Rule(
        "no effect",
        lambda run: _changes_nothing(run) and not is_solved(run),
        "frofa with a probability or a width of 0 changes nothing: raise it, or set train.frofa.kind=none",
    ),
)
