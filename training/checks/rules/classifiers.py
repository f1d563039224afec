"""Rules that follow from what classifiers say of their own options, and their names by what is true of them."""

from collections.abc import Callable, Mapping
from typing import get_args

from frostbench.heads.classifier import Classifier, Remark
from frostbench.heads.head import Closed, Stepped
from frostbench.training.checks.rules.properties import is_shifted
from frostbench.training.checks.rules.rule import Applies, Rule
from frostbench.training.run import RunSpec

CLASSIFIERS: tuple[type[Classifier], ...] = (*get_args(Stepped), *get_args(Closed))
BESIDE: Mapping[str, Applies] = {"": lambda run: True, "posthoc.adjustment": is_shifted}
"""Whether a run uses the option that a remark is about."""


def kinds_that(question: Callable[[type[Classifier]], bool]) -> str:
    """The kinds of which something is true, in words.

    >>> kinds_that(lambda kind: kind.is_linear)
    'linear'
    """
    *first, last = [kind.model_fields["kind"].default for kind in CLASSIFIERS if question(kind)]
    return f"{', '.join(first)} and {last}" if first else str(last)


def _rule(kind: type[Classifier], remark: Remark) -> Rule:
    """The rule that some classifier of a run is of a kind and has what a remark is about."""

    def applies(run: RunSpec) -> bool:
        own = [each for each in run.classifiers if isinstance(each, kind)]
        return BESIDE[remark.beside](run) and any(remark.applies(each) for each in own)

    return Rule(remark.verdict, applies, remark.sentence)


CLASSIFIER_RULES: tuple[Rule, ...] = tuple(_rule(kind, remark) for kind in CLASSIFIERS for remark in kind.remarks)
