"""Rule: a combination of options that is refused, has no effect or raises a warning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # The files of methods hold rules, and the run imports those files.
    from frostbench.training.run import RunSpec

Applies = Callable[["RunSpec"], bool]
Verdict = Literal["refuse", "no effect", "warn"]


@dataclass(frozen=True)
class Rule:
    """A combination of options with a verdict and advice.

    Attributes:
        verdict: refuse if the combination is meaningless, no effect if an option does nothing in it, warn if the
            combination works but is rarely intended.
        applies: whether a run has the combination.
        sentence: problem and remedy.
    """

    verdict: Verdict
    applies: Applies
    sentence: str
