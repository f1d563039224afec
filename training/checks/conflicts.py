"""Rules of all subjects in one table, which the command line and the app read, and the check of a run against them."""

from collections.abc import Sequence

from frostbench.training.checks.rules.buffer import BUFFER_RULES
from frostbench.training.checks.rules.classifiers import CLASSIFIER_RULES
from frostbench.training.checks.rules.margins import MARGIN_RULES
from frostbench.training.checks.rules.methods import METHOD_RULES
from frostbench.training.checks.rules.mixing import MIXING_RULES
from frostbench.training.checks.rules.points import POINT_RULES
from frostbench.training.checks.rules.posthoc import POSTHOC_RULES
from frostbench.training.checks.rules.prior import PRIOR_RULES
from frostbench.training.checks.rules.second import SECOND_RULES
from frostbench.training.checks.rules.solved import SOLVED_RULES
from frostbench.training.checks.rules.unused_options import UNUSED_RULES
from frostbench.training.checks.rules.views import VIEW_RULES
from frostbench.training.rule import Rule
from frostbench.training.run import RunSpec

__all__ = ["RULES", "Rule", "check"]

RULES: tuple[Rule, ...] = (
    *SOLVED_RULES,
    *PRIOR_RULES,
    *POINT_RULES,
    *METHOD_RULES,
    *MARGIN_RULES,
    *MIXING_RULES,
    *SECOND_RULES,
    *UNUSED_RULES,
    *CLASSIFIER_RULES,
    *VIEW_RULES,
    *BUFFER_RULES,
    *POSTHOC_RULES,
)


def check(run: RunSpec, rules: Sequence[Rule] = RULES) -> tuple[str, ...]:
    """Return the warnings for a run.

    Raises:
        ValueError: options contradict each other; the message has the sentence of every rule that refuses them.
    """
    met = [rule for rule in rules if rule.applies(run)]
    refused = [rule.sentence for rule in met if rule.verdict == "refuse"]
    if refused:
        raise ValueError(f"Incompatible options: {'; '.join(refused)}.")
    return tuple(rule.sentence for rule in met)
