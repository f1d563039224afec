"""Rows: what a classifier without gradient steps is fitted to."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Training rows as the classifier sees them.

    Attributes:
        x: [N, H] the body's output, float32 or float64.
        labels: [N] int64 class indices; some of 0..classes-1 may have no row.
        weight: [N] float64 how much each row counts, with mean 1.
        classes: number of classes C.
        class_names: [C] names of the classes, for classifiers that look their weights up by name; may be empty.
    """

    x: Tensor
    labels: Tensor
    weight: Tensor
    classes: int
    class_names: tuple[str, ...] = ()
