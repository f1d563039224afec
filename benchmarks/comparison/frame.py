"""The evaluated rows that compared runs share, and what each run predicted for them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from frostbench.training.metrics.counts import class_sets

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FEWEST_ROWS, FEWEST_CLASS_GROUPS = 5, 3
"""A class with fewer rows or groups than this is thin: its per-class figures are mostly noise."""


@dataclass(frozen=True)
class Frame:
    """The rows that all compared runs were evaluated on.

    Attributes:
        labels: [N] class indices.
        groups: [N] group indices from 0 to G - 1.
        train_counts: [C] training rows per class.
        background: class indices excluded from the foreground.
    """

    labels: Ints
    groups: Ints
    train_counts: Ints
    background: tuple[int, ...] = ()

    @property
    def n_groups(self) -> int:
        """Number of groups, G."""
        return int(self.groups.max()) + 1

    @cached_property
    def classes(self) -> dict[str, Bools]:
        """Masks [C] of the classes that each macro average covers: those with rows, the same for every resample."""
        support = np.bincount(self.labels, minlength=len(self.train_counts))
        return class_sets(support, self.train_counts, self.background)

    @cached_property
    def groups_by_class(self) -> Ints:
        """Number of groups with rows of each class, [C]."""
        pairs = np.unique(self.labels * self.n_groups + self.groups)
        return np.bincount(pairs // self.n_groups, minlength=len(self.train_counts))

    def thin(self) -> Bools:
        """Return a mask [C] of the classes that have some rows, but too few rows or groups."""
        rows = np.bincount(self.labels, minlength=len(self.train_counts))
        return (rows > 0) & ((rows < FEWEST_ROWS) | (self.groups_by_class < FEWEST_CLASS_GROUPS))


@dataclass(frozen=True)
class Predictions:
    """Predictions of one run for the N rows of a frame.

    Attributes:
        predicted: [N] class indices.
        confidence: [N] probability of the predicted class.
        confidence_raw: [N] the same before temperature scaling.
        log_p: [N] log-probability of the label; -inf if its class had no training rows.
        brier: [N] Brier score.
    """

    predicted: Ints
    confidence: Floats
    confidence_raw: Floats
    log_p: Floats
    brier: Floats

    @property
    def are_valid(self) -> bool:
        """Whether no value is NaN; if a run diverged, its predicted classes mean nothing either."""
        return bool(
            np.isfinite(self.confidence).all() and np.isfinite(self.brier).all() and (self.log_p < np.inf).all()
        )

    def same_as(self, other: "Predictions") -> bool:
        """Return whether both runs predicted exactly the same for every row."""
        return all(np.array_equal(vars(self)[name], vars(other)[name]) for name in vars(self))
