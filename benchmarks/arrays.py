"""Writes arrays in memory to a cache, so that they are checked and used like any other cache."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.embedcache.cells import known_cells
from frostbench.embedcache.exchange.writing import write_cache
from frostbench.embedcache.given.classes import Labels, read_labels
from frostbench.embedcache.given.columns import read_cells, read_texts
from frostbench.embedcache.given.vectors import check_finite, check_lengths, read_vectors
from frostbench.embedcache.items import NO_GROUPS, Item
from frostbench.embedcache.splits.making import ROLES
from frostbench.embedcache.storage.state import read_state
from frostbench.embedcache.table import FeatureTable

Vectors = Any
"""Vectors as accepted by `frostbench.embedcache.given.vectors.read_vectors`, or a mapping of column names to these."""


@dataclass(frozen=True, eq=False)
class Given:
    """Data given by the caller, as a cache.

    Attributes:
        folder: folder of the cache.
        classes: [C] classes, in the type of the caller's labels; class names for a cache or a table.
        notes: notes on the data.
    """

    folder: Path
    classes: npt.NDArray[Any]
    notes: tuple[str, ...] = ()


def cache_of(
    x: Vectors | FeatureTable | Path | str,
    labels: Any,
    groups: Any,
    class_names: Any,
    roles: Sequence[str] | None,
    folder: Path,
) -> Given:
    """Write the data to a cache, unless x is already one, and return it.

    Args:
        x: vectors, columns, a table, or the folder of a cache.
        labels: [N] as accepted by `frostbench.embedcache.given.classes.read_labels`; None for a table or a cache.
        groups: [N] text or integers, missing for rows that are independent of the others; or None.
        class_names: [C] all classes in order, or None.
        roles: [N] roles of a given split, or None.
        folder: folder of the new cache.

    Raises:
        ValueError: arrays have the wrong length or type, a label is missing, a class name is repeated, a vector is not
            finite, or labels, groups or class names are given with a cache or table.
    """
    if isinstance(x, str | Path | FeatureTable) and not all(v is None for v in (labels, groups, class_names)):
        raise SettingsError(
            "A cache or table has its own labels, groups and class names, but others were given as well. Omit them, or "
            "pass only the vectors."
        )
    if isinstance(x, str | Path):
        if roles is not None:
            raise SettingsError(
                "The split of a cache must be a mapping of options, such as {'folds': 5}, but a role for each row was "
                "given."
            )
        return Given(Path(x), np.array(read_state(Path(x))[0]["class_names"], dtype=str))
    if isinstance(x, FeatureTable):
        return _of_table(x, roles, folder)
    columns = vector_columns(x, "features")
    found = read_labels(labels, class_names)
    cells, notes = (None, []) if groups is None else known_cells(read_texts(groups, "groups"), "groups")
    check_lengths(_named(label=found.names, group=cells, split=roles) | columns)
    for name, vectors in columns.items():
        check_finite(vectors, f"vectors of column {name!r}" if len(columns) > 1 else "vectors")
    ids = [f"row-{row:08d}" for row in range(len(found.names))]
    return _write(columns, found, folder, ids, group=cells, split=roles, notes=notes)


def vector_columns(x: Vectors, name: str, *, tokens: bool = False) -> dict[str, npt.NDArray[Any]]:
    """Return vectors by column name; a single array gets the given name. `tokens` also allows arrays [N, T, D].

    Raises:
        ValueError: a column does not hold numbers of an allowed shape, two column names are equal as text, or there is
            no column.
    """
    if not isinstance(x, Mapping):
        return {name: read_vectors(x, tokens=tokens)}
    twice = [key for key, count in Counter(map(str, x)).items() if count > 1]
    if twice or not x:
        problem = f"duplicate names {twice}" if twice else "no columns"
        raise SettingsError(f"Vectors in a mapping must have unique names, got {problem}. Name each column once.")
    return {str(key): read_vectors(value, f"vectors of column {str(key)!r}", tokens=tokens) for key, value in x.items()}


def given_roles(split: Any) -> list[str] | None:
    """Return the role of each row, or None if `split` holds options or is None.

    Raises:
        SettingsError: a role is unknown or missing.
    """
    if split is None or isinstance(split, Mapping):
        return None
    roles = [str(role) for role in read_cells(split, "roles")]
    unknown = sorted(set(roles) - set(ROLES))
    if unknown:
        raise SettingsError(
            f"The role of a row must be one of {list(ROLES)}, got {unknown[:5]}. Use train for rows without a role; "
            "roles that do not occur, except test, are cut from the training rows."
        )
    return roles


def _named(**cells: Sequence[Any] | None) -> dict[str, Any]:
    return {name: values for name, values in cells.items() if values is not None}


def _of_table(table: FeatureTable, roles: Sequence[str] | None, folder: Path) -> Given:
    """Write a table to a cache with all its data, including classes without rows."""
    if not table.columns:
        raise SettingsError(
            "A table for training must hold its vectors, but those of this table are on disk. Pass the folder of its "
            "cache instead."
        )
    check_lengths({"ids": table.ids} | _named(split=roles))
    names = np.array(table.class_names, dtype=str)
    columns = {name: read_vectors(x, f"vectors of column {name!r}") for name, x in table.columns.items()}
    found = Labels(names[table.labels].tolist(), table.class_names, names)
    groups = table.groups.tolist() if table.has_groups else None
    split = roles if table.split is None or roles is not None else [role or None for role in table.split.tolist()]
    times = None if table.times is None else [time or None for time in table.times.tolist()]
    return _write(columns, found, folder, table.ids.tolist(), group=groups, split=split, time=times)


def _write(
    columns: Mapping[str, npt.NDArray[Any]],
    labels: Labels,
    folder: Path,
    ids: Sequence[str],
    notes: Sequence[str] = (),
    **cells: Any,
) -> Given:
    """Write rows with these ids and cells to a cache; the note on missing groups is left to the fit."""
    parts = {name: list(values) for name, values in cells.items() if values is not None}
    rows = [
        Item(id=row_id, path=None, label=label, **{name: values[row] for name, values in parts.items()})
        for row, (row_id, label) in enumerate(zip(ids, labels.names, strict=True))
    ]
    *_, written = write_cache(folder, rows, columns, "arrays in memory", "arrays", labels.class_names)
    return Given(folder, labels.values, tuple(note for note in [*notes, *written] if note != NO_GROUPS))
