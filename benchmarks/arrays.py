"""Arrays in memory as a cache, so that all that is promised of caches holds for them."""

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
"""Vectors [N, D] as `frostbench.embedcache.given.vectors.read_vectors` takes them, or columns of them by name."""


@dataclass(frozen=True, eq=False)
class Given:
    """What came, as a cache.

    Attributes:
        folder: of the cache.
        classes: [C] what the caller calls each class; text where a cache or a table came.
        notes: what is to be said of it.
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
    """The cache that x is, or into which it was written.

    Args:
        x: vectors, columns, a table, or the folder of a cache.
        labels: [N] as `frostbench.embedcache.given.classes.read_labels` takes them; None for a table or a cache.
        groups: [N] text or whole numbers, missing where a row is independent of the others; or None.
        class_names: [C] all classes in order, or None.
        roles: [N] of a given split, or None.
        folder: where a cache is made if x is none.

    Raises:
        ValueError: arrays have other lengths or types than these, labels are missing or come twice, or a vector is not
            finite.
    """
    if isinstance(x, str | Path | FeatureTable) and not all(v is None for v in (labels, groups, class_names)):
        raise SettingsError(
            "a cache and a table have labels, groups and class names of their own, however: others came as well. "
            "Leave them out, or pass the vectors alone."
        )
    if isinstance(x, str | Path):
        if roles is not None:
            raise SettingsError("a cache is split by its options, however: a role for each row came. Pass a mapping.")
        return Given(Path(x), np.array(read_state(Path(x))[0]["class_names"], dtype=str))
    if isinstance(x, FeatureTable):
        return _of_table(x, roles, folder)
    columns = vector_columns(x, "features")
    found = read_labels(labels, class_names)
    cells, words = (None, []) if groups is None else known_cells(read_texts(groups, "groups"), "groups")
    check_lengths(_named(label=found.names, group=cells, split=roles) | columns)
    for name, vectors in columns.items():
        check_finite(vectors, f"vectors of column {name!r}" if len(columns) > 1 else "vectors")
    ids = [f"row-{row:08d}" for row in range(len(found.names))]
    return _write(columns, found, folder, ids, group=cells, split=roles, told=words)


def vector_columns(x: Vectors, name: str, *, tokens: bool = False) -> dict[str, npt.NDArray[Any]]:
    """Vectors by column; those without a name get this one.

    Raises:
        ValueError: one is no matrix of numbers, or two columns have the same name as text.
    """
    if not isinstance(x, Mapping):
        return {name: read_vectors(x, tokens=tokens)}
    twice = [own for own, count in Counter(map(str, x)).items() if count > 1]
    if twice or not x:
        raise SettingsError(f"vectors are columns by name, however: {twice or 'none'} came. Name each column once.")
    return {str(own): read_vectors(value, f"vectors of column {str(own)!r}", tokens=tokens) for own, value in x.items()}


def given_roles(split: Any) -> list[str] | None:
    """The role of each row, where split is that; None where it is options or nothing.

    Raises:
        SettingsError: a role is unknown or missing.
    """
    if split is None or isinstance(split, Mapping):
        return None
    roles = [str(role) for role in read_cells(split, "roles")]
    unknown = sorted(set(roles) - set(ROLES))
    if unknown:
        raise SettingsError(
            f"the role of a row is one of {list(ROLES)}, however: {unknown[:5]} came. Rename them; rows that have no "
            "role yet are called train, and are cut."
        )
    return roles


def _named(**cells: Sequence[Any] | None) -> dict[str, Any]:
    return {name: values for name, values in cells.items() if values is not None}


def _of_table(table: FeatureTable, roles: Sequence[str] | None, folder: Path) -> Given:
    """A table with all that it says of its rows; classes without rows stay in its list."""
    if not table.columns:
        raise SettingsError(
            "a table that is trained on holds its vectors, however: they stay on disk. Pass the folder of its cache."
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
    told: Sequence[str] = (),
    **cells: Any,
) -> Given:
    """The cache of rows with these ids and cells; what a fit says anyway is left out of its notes."""
    parts = {name: list(values) for name, values in cells.items() if values is not None}
    rows = [
        Item(id=one, path=None, label=label, **{name: values[row] for name, values in parts.items()})
        for row, (one, label) in enumerate(zip(ids, labels.names, strict=True))
    ]
    *_, notes = write_cache(folder, rows, columns, "arrays in memory", "arrays", labels.class_names)
    return Given(folder, labels.values, tuple(note for note in [*told, *notes] if note != NO_GROUPS))
