"""Precision, recall and F1 from counts, and the classes that means run over: one definition for every array library.

Metrics of one table (`classification`), of all heads of a stack (`engine.selection`) and of bootstrap resamples
(`benchmarks.comparison.metrics`) use it, with tensors or with numpy arrays of any shape.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

Array = TypeVar("Array", bound=Any)
"""A torch tensor or a numpy array."""
MANY_ABOVE = 100
"""Classes with more training rows than this are many-shot (Kang et al., ICLR 2020)."""
FEW_BELOW = 20
"""Classes with fewer training rows than this, but some, are few-shot; the rest are medium-shot."""


def shot_of(count: int) -> Literal["absent", "few", "medium", "many"]:
    """Name how many training rows a class has, as papers on long-tailed recognition do.

    >>> [shot_of(count) for count in (0, 19, 20, 100, 101)]
    ['absent', 'few', 'medium', 'medium', 'many']
    """
    if count == 0:
        return "absent"
    return "many" if count > MANY_ABOVE else "few" if count < FEW_BELOW else "medium"


def precision(right: Array, predicted: Array) -> Array:
    """Share of the predicted rows that are right; 0 where none was predicted."""
    found: Array = right / predicted.clip(min=1)
    return found


def recall(right: Array, support: Array) -> Array:
    """Share of the rows of a class that are right; 0 where it has none."""
    found: Array = right / support.clip(min=1)
    return found


def f1(right: Array, support: Array, predicted: Array) -> Array:
    """Harmonic mean of precision and recall; 0 where a class has neither rows nor predictions."""
    found: Array = 2 * right / (support + predicted).clip(min=1)
    return found


def class_sets(support: Any, train_counts: Any, background: Sequence[int] = ()) -> dict[str, Any]:
    """Return which classes [C] each mean over classes runs over.

    Args:
        support: [C] rows of each class.
        train_counts: [C] training rows of each class.
        background: class indices left out of the foreground.

    Returns:
        Masks [C]: `seen` have rows; `fg` are those in the foreground; `fg_known` also have foreground classes with
        training rows alone; `many`, `medium` and `few` are seen classes by their training rows.
    """
    seen, trained = support > 0, train_counts > 0
    foreground = train_counts >= 0
    foreground[list(background)] = False
    many, few = train_counts > MANY_ABOVE, trained & (train_counts < FEW_BELOW)
    medium = (train_counts >= FEW_BELOW) & ~many
    known = foreground & (seen | trained)
    own = {"seen": seen, "fg": foreground & seen, "fg_known": known}
    return own | {"many": seen & many, "medium": seen & medium, "few": seen & few}
