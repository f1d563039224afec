"""What the server and the process that predicts both know of a head."""

from dataclasses import dataclass
from pathlib import Path

MOST_SETS = 4
"""Largest number of sets of images whose predictions are kept; those not asked for the longest are dropped."""


@dataclass(frozen=True)
class Choice:
    """A head to predict with.

    Attributes:
        store: run store.
        key: run whose head it is.
        cache: cache of the run, or None if the page cannot read it.
    """

    store: Path
    key: str
    cache: Path | None
