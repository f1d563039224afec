"""Rules of cosine and margin classifiers."""

from frostbench.heads.bodies.body import Identity
from frostbench.heads.preprocess import Standardise
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec


def _gains_only(run: RunSpec) -> bool:
    """Whether the last augmentation before the cosines is a random gain per vector, which cosines ignore."""
    return run.train.augment.gain > 0 and run.train.augment.noise == 0 and not run.is_mixed


MARGIN_RULES: tuple[Rule, ...] = (
    Rule(
        "warn",
        lambda run: run.head.classifier.sets_margin and run.train.loss.smoothing.epsilon > 0,
        "label smoothing bounds the gap between logits, but a margin widens it: set "
        "train.loss.smoothing.epsilon=0, or use head.classifier.kind=cosine",
    ),
    Rule(
        "no effect",
        lambda run: run.head.classifier.is_marginless,
        "a margin of 0 is a plain cosine classifier, so the options of the margin have no effect: raise the margin, or "
        "use head.classifier.kind=cosine",
    ),
    Rule(
        "warn",
        lambda run: run.is_bare_cosine and not run.head.preprocess.center and not run.head.classifier.keeps_space,
        "a direction shared by all vectors leaves small angles between classes: set head.preprocess.center=true",
    ),
    Rule(
        "no effect",
        lambda run: run.is_bare_cosine and _gains_only(run),
        "a cosine does not depend on the length of a vector, so train.augment.gain has no effect: set it to 0, or use "
        "train.augment.channel_scale",
    ),
    Rule(
        "refuse",
        lambda run: run.head.classifier.keeps_space and not run.is_solved and not isinstance(run.head.body, Identity),
        "weights from a file belong to the space of the vectors, but a body maps vectors to another: use "
        "head.body.kind=identity, or head.classifier.init=class_means",
    ),
    Rule(
        "warn",
        lambda run: run.head.classifier.keeps_space and run.head.preprocess != Standardise(),
        "weights from a file belong to the space of the cached vectors, but head.preprocess changes that space: set "
        "its center and std to false",
    ),
)
