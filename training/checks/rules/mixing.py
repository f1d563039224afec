"""Rules of options that change training rows: mixing, augmentation, frofa and oversampling."""

from frostbench.heads.bodies.attention_pool import AttentionPool
from frostbench.training.augment.frofa import NoFrofa, Posterize
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import NoOversample
from frostbench.training.spec.stage import StageSpec


def _changes_nothing(run: RunSpec) -> bool:
    """Whether frofa is on but leaves every vector unchanged."""
    frofa = run.train.frofa
    if isinstance(frofa, NoFrofa):
        return False
    return frofa.probability == 0 or (not isinstance(frofa, Posterize) and frofa.width == 0)


def _changes_rows(run: RunSpec) -> bool:
    """Whether training rows are changed, mixed or synthesised."""
    train = run.train
    is_changed = run.is_mixed or not train.augment.is_neutral or not isinstance(train.frofa, NoFrofa)
    return is_changed or not isinstance(train.oversample, NoOversample)


MIXING_RULES: tuple[Rule, ...] = (
    Rule(
        "refuse",
        lambda run: isinstance(run.head.body, AttentionPool) and _changes_rows(run),
        "attention_pool reads the tokens of an image, but mixing, augment, frofa and oversample change one vector per "
        "image: turn them off, or use head.body.kind=mlp",
    ),
    Rule(
        "refuse",
        lambda run: not isinstance(run.train.oversample, NoOversample) and run.train.loss.count == "groups",
        "synthetic rows belong to no group, so groups cannot be counted: set train.loss.count=images, or "
        "train.oversample.kind=none",
    ),
    *(rule for field in StageSpec.model_fields.values() for rule in getattr(field.annotation, "rules", ())),
    Rule(
        "no effect",
        lambda run: _changes_nothing(run) and not run.is_solved,
        "frofa with a probability or a width of 0 changes nothing: raise it, or set train.frofa.kind=none",
    ),
)
