"""Training rows for classifiers that read them directly."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Training rows as the classifier sees them.

    Attributes:
        x: [N, H] outputs of the body, float32 or float64.
        labels: [N] int64 class indices; a class may have no rows.
        weight: [N] float64 weights of the rows, with mean 1.
        classes: number of classes C.
        class_names: C names, for classifiers that look up weights by name; may be empty.
    """

    x: Tensor
    labels: Tensor
    weight: Tensor
    classes: int
    class_names: tuple[str, ...] = ()
