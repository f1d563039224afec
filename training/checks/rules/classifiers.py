"""Rules that follow from what classifiers say of their own options."""

from collections.abc import Mapping

from frostbench.heads.classifier import Classifier, Remark
from frostbench.heads.head import CLASSIFIERS
from frostbench.training.rule import Applies, Rule
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import is_shifted

BESIDE: Mapping[str, Applies] = {"": lambda run: True, "posthoc.adjustment": is_shifted}
"""Whether a run uses the option that a remark is about."""


def _rule(kind: type[Classifier], remark: Remark) -> Rule:
    """The rule that some classifier of a run is of a kind and has what a remark is about."""

    def applies(run: RunSpec) -> bool:
        own = [each for each in run.classifiers if isinstance(each, kind)]
        return BESIDE[remark.beside](run) and any(remark.applies(each) for each in own)

    return Rule(remark.verdict, applies, remark.sentence)


CLASSIFIER_RULES: tuple[Rule, ...] = tuple(_rule(kind, remark) for kind in CLASSIFIERS for remark in kind.remarks)
