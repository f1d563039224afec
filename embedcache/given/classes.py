"""Labels and the class list: which classes there are, in which order, and the class of each row."""

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
    """The classes of N rows.

    Attributes:
        names: the name of each row's class, [N].
        class_names: all C classes in order, those without rows included.
        values: [C] what the caller calls each class, in the type of the labels that came.
    """

    names: list[str]
    class_names: tuple[str, ...]
    values: npt.NDArray[Any]


def read_labels(labels: Any, class_names: Any = None) -> Labels:
    """The classes of rows from their labels, and from a class list where there is one.

    Without a list the classes are the labels that occur: numbers in their order, text in natural order. A list is the
    order and the full set. Labels are entries of it, or, where they are integers and it holds text, places in it.

    >>> found = read_labels([7, 10, 9])
    >>> found.class_names, found.values.tolist()
    (('7', '9', '10'), [7, 9, 10])
    >>> read_labels([1, 0], ["elm", "ash", "oak"]).names
    ['ash', 'elm']

    Args:
        labels: [N] text, integers, whole numbers or booleans, as `read_cells` takes them.
        class_names: [C] all classes in order; None where the labels are all there are.

    Raises:
        ValueError: a label is missing or no class of the list, or the list has an empty or a repeated name.
    """
    cells = read_cells(labels, "labels")
    missing, first = first_missing(cells)
    if missing:
        raise ValueError(
            f"each row has a label, however: {missing} of {len(cells)} are missing (NaN, None or blank), the first in "
            f"row {first}. Name their classes, or drop these rows."
        )
    if class_names is None:
        found = set(cells)
        order = sorted(found, key=lambda v: natural_key(v) if isinstance(v, str) else v)  # type: ignore[arg-type,return-value]
        return Labels([str(cell) for cell in cells], tuple(map(str, order)), kept_type(labels, order))
    return _by_list(labels, cells, read_class_names(class_names))


def read_class_names(class_names: Any) -> list[Cell]:
    """The entries of a class list, as they came.

    Raises:
        ValueError: there is none, or one is empty or repeated.
    """
    names = read_cells(class_names, "class names")
    missing, first = first_missing(names)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if missing or twice or not names:
        told = f"{twice[:5]} came twice" if twice else f"entry {first} is blank" if missing else "none came"
        raise ValueError(f"a class list names each class once, however: {told}. Correct it.")
    return names


def told_of_classes(names: Sequence[str], class_names: Sequence[str]) -> list[str]:
    """Sentences on classes that no row has, and on those whose name is what a missing label becomes as text.

    >>> told_of_classes(["a"], ["a", "b"])
    ['1 of 2 classes has no row; heads keep a place for it, with probability 0: b.']
    """
    there, told = set(names), []
    if empty := [name for name in class_names if name not in there]:
        has, it = ("has", "it") if len(empty) == 1 else ("have", "each")
        told.append(
            f"{len(empty)} of {len(class_names)} classes {has} no row; heads keep a place for {it}, with probability "
            f"0: {', '.join(empty[:10])}{' …' if len(empty) > 10 else '.'}"
        )
    if odd := [name for name in class_names if name in there and name in UNKNOWN_WORDS]:
        told.append(
            f"The class {', '.join(map(repr, odd))} is named as programs write a label that is missing. Drop these "
            "rows if their class is unknown."
        )
    return told


def _by_list(labels: Any, cells: list[Cell], listed: list[Cell]) -> Labels:
    names = tuple(map(str, listed))
    own, theirs = {type(cell) for cell in cells}, {type(name) for name in listed}
    if theirs == {str} and not own & {str}:
        places = [int(cell) for cell in cells if cell is not None]
        if min(places, default=0) < 0 or max(places, default=0) >= len(names):
            raise ValueError(
                f"class_names are what integers from 0 to {len(names) - 1} index, however: labels go from "
                f"{min(places)} to {max(places)}. Name every class, or leave class_names out."
            )
        return Labels([names[place] for place in places], names, kept_type(labels, np.arange(len(names)).tolist()))
    unknown = [cell for cell in dict.fromkeys(cells) if cell not in listed or own != theirs]
    if unknown:
        raise ValueError(
            f"labels are entries of class_names, however: {unknown[:5]} are not among the {len(names)} of "
            f"{listed[:5]}{' …' if len(names) > 5 else ''}. Name every class, in the type of the labels."
        )
    return Labels([str(cell) for cell in cells], names, kept_type(labels, listed))
