"""Rules from the remarks of classifiers on their own options."""

from collections.abc import Mapping

from frostbench.heads.classifier import Classifier, Remark
from frostbench.heads.head import CLASSIFIERS
from frostbench.training.rule import Applies, Rule
from frostbench.training.run import RunSpec

BESIDE: Mapping[str, Applies] = {"": lambda run: True, "posthoc.adjustment": lambda run: run.is_shifted}
"""Whether a run uses the option that a remark refers to."""


def _rule(kind: type[Classifier], remark: Remark) -> Rule:
    """Build the rule that makes a remark on classifiers of this kind."""

    def applies(run: RunSpec) -> bool:
        specs = [spec for spec in run.classifiers if isinstance(spec, kind)]
        return BESIDE[remark.beside](run) and any(remark.applies(spec) for spec in specs)

    return Rule(remark.verdict, applies, remark.sentence)


CLASSIFIER_RULES: tuple[Rule, ...] = tuple(_rule(kind, remark) for kind in CLASSIFIERS for remark in kind.remarks)
