"""Precision, recall and F1 from counts, and the sets of classes to average over, for tensors and numpy arrays.

Used for the metrics of one table (`classification`), of all heads of a stack (`engine.selection`) and of bootstrap
resamples (`benchmarks.comparison.metrics`).
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

Array = TypeVar("Array", bound=Any)
"""A torch tensor or a numpy array."""
MANY_ABOVE = 100
"""Classes with more training rows than this are many-shot (Kang et al., ICLR 2020)."""
FEW_BELOW = 20
"""Classes with fewer training rows than this, but at least one, are few-shot; the rest are medium-shot."""


def shot_of(count: int) -> Literal["absent", "few", "medium", "many"]:
    """Return the shot group of a class with this many training rows, as in papers on long-tailed recognition.

    >>> [shot_of(count) for count in (0, 19, 20, 100, 101)]
    ['absent', 'few', 'medium', 'medium', 'many']
    """
    if count == 0:
        return "absent"
    return "many" if count > MANY_ABOVE else "few" if count < FEW_BELOW else "medium"


def precision(right: Array, predicted: Array) -> Array:
    """Return the share of the rows predicted as a class that belong to it; 0 if there are none."""
    score: Array = right / predicted.clip(min=1)
    return score


def recall(right: Array, support: Array) -> Array:
    """Return the share of the rows of a class that are predicted as it; 0 if there are none."""
    score: Array = right / support.clip(min=1)
    return score


def f1(right: Array, support: Array, predicted: Array) -> Array:
    """Return the harmonic mean of precision and recall; 0 if a class has neither rows nor predictions."""
    score: Array = 2 * right / (support + predicted).clip(min=1)
    return score


def class_sets(support: Any, train_counts: Any, background: Sequence[int] = ()) -> dict[str, Any]:
    """Return the sets of classes [C] over which metrics are averaged.

    Args:
        support: rows per class [C].
        train_counts: training rows per class [C].
        background: class indices excluded from the foreground.

    Returns:
        Masks [C]: `seen` are classes with rows; `fg` are seen foreground classes; `fg_known` also includes foreground
        classes with only training rows; `many`, `medium` and `few` are seen classes by their training rows.
    """
    seen, trained = support > 0, train_counts > 0
    foreground = train_counts >= 0
    foreground[list(background)] = False
    many, few = train_counts > MANY_ABOVE, trained & (train_counts < FEW_BELOW)
    medium = (train_counts >= FEW_BELOW) & ~many
    known = foreground & (seen | trained)
    sets = {"seen": seen, "fg": foreground & seen, "fg_known": known}
    return sets | {"many": seen & many, "medium": seen & medium, "few": seen & few}
