"""Labels and class lists: the classes, their order, and the class of each row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.cells import UNKNOWN_WORDS
from frostbench.embedcache.given.columns import Cell, first_missing, kept_type, read_cells
from frostbench.embedcache.items import natural_key


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes of N rows.

    Attributes:
        names: name of each row's class, [N].
        class_names: all C classes in order, including those without rows.
        values: the caller's label for each class, in the type of the given labels, [C].
    """

    names: list[str]
    class_names: tuple[str, ...]
    values: npt.NDArray[Any]


def read_labels(labels: Any, class_names: Any = None) -> Labels:
    """Read the classes of rows from their labels, and from a class list if given.

    Without a list, the classes are the labels that occur: numbers in numeric order, text in natural order. A list
    defines the order and the full set. Labels are its entries, or indices into a list of text if they are integers.

    >>> labels = read_labels([7, 10, 9])
    >>> labels.class_names, labels.values.tolist()
    (('7', '9', '10'), [7, 9, 10])
    >>> read_labels([1, 0], ["elm", "ash", "oak"]).names
    ['ash', 'elm']

    Args:
        labels: text, whole numbers or booleans as accepted by `read_cells`, [N].
        class_names: all classes in order, [C]; None uses the labels that occur.

    Raises:
        ValueError: a label is missing or not in the list, or the list is empty or has a blank or repeated name.
    """
    cells = read_cells(labels, "labels")
    missing, first = first_missing(cells)
    if missing:
        raise ValueError(
            f"each row must have a label, but {missing} of {len(cells)} {'is' if missing == 1 else 'are'} missing "
            f"(NaN, None or blank), the first in row {first}. Label such rows, or drop them."
        )
    if class_names is None:
        order = sorted(set(cells), key=lambda v: natural_key(v) if isinstance(v, str) else v)  # type: ignore[arg-type,return-value]
        return Labels([str(cell) for cell in cells], tuple(map(str, order)), kept_type(labels, order))
    return _by_list(labels, cells, read_class_names(class_names))


def read_class_names(class_names: Any) -> list[Cell]:
    """Return the entries of a class list unchanged.

    Raises:
        ValueError: the list is empty, or an entry is blank or repeated.
    """
    names = read_cells(class_names, "class names")
    missing, first = first_missing(names)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if missing or twice or not names:
        problem = f"{twice[:5]} are repeated" if twice else f"entry {first} is blank" if missing else "it is empty"
        raise ValueError(f"a class list must name each class once, but {problem}. Correct it.")
    return names


def class_notes(names: Sequence[str], class_names: Sequence[str]) -> list[str]:
    """Return notes about classes without rows, and about class names that look like missing labels.

    >>> class_notes(["a"], ["a", "b"])
    ['1 of 2 classes has no rows, so heads give it probability 0: b.']
    """
    present, notes = set(names), []
    if empty := [name for name in class_names if name not in present]:
        has, it = ("has", "it") if len(empty) == 1 else ("have", "them")
        notes.append(
            f"{len(empty)} of {len(class_names)} classes {has} no rows, so heads give {it} probability 0: "
            f"{', '.join(empty[:10])}{' …' if len(empty) > 10 else '.'}"
        )
    if odd := [name for name in class_names if name in present and name in UNKNOWN_WORDS]:
        notes.append(
            f"Some class names look like missing labels: {', '.join(map(repr, odd))}. Drop their rows if the class is "
            "unknown."
        )
    return notes


def _by_list(labels: Any, cells: list[Cell], listed: list[Cell]) -> Labels:
    names = tuple(map(str, listed))
    label_types, listed_types = {type(cell) for cell in cells}, {type(name) for name in listed}
    if listed_types == {str} and str not in label_types:
        indices = [int(cell) for cell in cells if cell is not None]
        if min(indices, default=0) < 0 or max(indices, default=0) >= len(names):
            raise ValueError(
                f"integer labels must be indices into class_names, 0 to {len(names) - 1}, got {min(indices)} to "
                f"{max(indices)}. List every class, or leave class_names out."
            )
        return Labels([names[i] for i in indices], names, kept_type(labels, np.arange(len(names)).tolist()))
    unknown = [cell for cell in dict.fromkeys(cells) if cell not in listed or label_types != listed_types]
    if unknown:
        raise ValueError(
            f"labels must be entries of class_names, but {unknown[:5]} are not among its {len(names)} entries "
            f"{listed[:5]}{' …' if len(names) > 5 else ''}. List every class, in the type of the labels."
        )
    return Labels([str(cell) for cell in cells], names, kept_type(labels, listed))
