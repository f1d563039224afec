"""What a rule is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # A method's rules stand in its own file, which the run's spec imports.
    from frostbench.training.run import RunSpec

Applies = Callable[["RunSpec"], bool]
Verdict = Literal["refuse", "no effect", "warn"]


@dataclass(frozen=True)
class Rule:
    """A combination and what there is to say about it.

    Attributes:
        verdict: refuse where it has no meaning, idle where an option has no effect, warn where the combination has a
            meaning that is rarely meant.
        applies: whether a run has the combination.
        sentence: what is wrong and what to do.
    """

    verdict: Verdict
    applies: Applies
    sentence: str
