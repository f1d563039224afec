"""The result of a choice by preset `auto`."""

import json
import shlex
from dataclasses import dataclass

from frostbench.benchmarks.auto.candidates import Candidate


@dataclass(frozen=True)
class Tried:
    """A candidate and its result on held-out training rows.

    Attributes:
        name: name of the candidate.
        macro_f1: macro F1 over foreground classes, or None if it has no result.
        nll: calibrated negative log-likelihood in nats, or None.
        problem: why it has no result, or "".
    """

    name: str
    macro_f1: float | None
    nll: float | None
    problem: str = ""


@dataclass(frozen=True)
class Choice:
    """The configuration chosen for a table.

    Attributes:
        name: name of the chosen candidate.
        candidate: its preset and the differences from it.
        tried: all candidates with their results.
        reason: why it was chosen, as one sentence without a full stop.
    """

    name: str
    candidate: Candidate
    tried: tuple[Tried, ...]
    reason: str

    @property
    def warnings(self) -> tuple[str, ...]:
        """What needs attention: the first candidate was taken because none could be cross-validated."""
        return () if any(one.macro_f1 is not None for one in self.tried) else (f"auto: {self.reason}",)

    @property
    def options(self) -> str:
        """Options of `frostbench train` that train the same configuration."""
        changes = self.candidate.changes.items()
        words = (f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in changes)
        return " ".join([f"--preset {self.candidate.preset}", *(f"--set {shlex.quote(word)}" for word in words)])

    def __str__(self) -> str:
        width = max((len(one.name) for one in self.tried), default=0)
        lines = [f"  {one.name.ljust(width)}  {_result(one)}" for one in self.tried]
        return "\n".join([*lines, f"auto: {self.reason}", f"      {self.options}"])


def _result(one: Tried) -> str:
    if one.macro_f1 is None or one.nll is None:
        return one.problem
    return f"macro F1 {one.macro_f1:.3f}, NLL {one.nll:.3f}"
