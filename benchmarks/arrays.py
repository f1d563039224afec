"""Arrays in memory as a cache, so that all that is promised of caches holds for them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.settings import SettingsError
from embedcache.exchange.external import import_vectors
from embedcache.splits.making import ROLES
from embedcache.table import FeatureTable

Vectors = npt.NDArray[Any] | torch.Tensor | Mapping[str, npt.NDArray[Any] | torch.Tensor]
"""Vectors [N, D], or columns of them by name."""


def cache_of(
    x: Vectors | FeatureTable | Path | str,
    labels: Any,
    groups: Any,
    class_names: Sequence[str] | None,
    roles: Sequence[str] | None,
    folder: Path,
) -> Path:
    """The folder of the cache that x is, or into which it was written.

    Args:
        x: vectors, columns, a table, or the folder of a cache.
        labels: [N] names or indices; None for a table or a cache.
        groups: [N], or None.
        class_names: what integer labels index.
        roles: [N] of a given split, or None.
        folder: where a cache is made if x is none.

    Raises:
        ValueError: arrays have other lengths or types than these, or labels come twice.
    """
    if isinstance(x, str | Path | FeatureTable) and not all(v is None for v in (labels, groups, class_names)):
        raise SettingsError(
            "a cache and a table have labels, groups and class names of their own, however: others came as well. "
            "Leave them out, or pass the vectors alone."
        )
    if isinstance(x, str | Path):
        if roles is not None:
            raise SettingsError("a cache is split by its options, however: a role for each row came. Pass a mapping.")
        return Path(x)
    if isinstance(x, FeatureTable):
        names = [x.class_names[place] for place in x.labels.tolist()]
        return _write(dict(x.columns), names, x.groups if x.has_groups else None, roles, folder, x.ids.tolist())
    columns = {str(k): _array(v) for k, v in x.items()} if isinstance(x, Mapping) else {"features": _array(x)}
    return _write(columns, label_names(labels, class_names), groups, roles, folder, None)


def label_names(labels: Any, class_names: Sequence[str] | None) -> list[str]:
    """The class name of each row, from names, or from integers that index class_names or stand for themselves.

    >>> label_names([1, 0], ["ash", "elm"]), label_names([7, 8], None), label_names(["ash"], None)
    (['elm', 'ash'], ['7', '8'], ['ash'])

    Raises:
        SettingsError: labels are none of these, or lie outside of class_names.
    """
    found = np.asarray(labels)
    whole = np.issubdtype(found.dtype, np.integer)
    if found.ndim != 1 or not (whole or all(isinstance(label, str) for label in found.tolist())):
        raise SettingsError(
            f"labels are [N] names or integers, however: {found.dtype} {list(found.shape)} came. Pass one for each row."
        )
    if class_names is None:
        return [str(label) for label in found.tolist()]
    names = list(class_names)
    if not whole or found.min(initial=0) < 0 or found.max(initial=0) >= len(names):
        raise SettingsError(
            f"class_names are what integers from 0 to {len(names) - 1} index, however: labels are {found.dtype}, from "
            f"{min(found.tolist(), default=None)!r} to {max(found.tolist(), default=None)!r}. Leave class_names out "
            "where labels are names."
        )
    return [names[place] for place in found.tolist()]


def given_roles(split: Any) -> list[str] | None:
    """The role of each row, where split is that; None where it is options or nothing.

    Raises:
        SettingsError: a role is unknown.
    """
    if split is None or isinstance(split, Mapping):
        return None
    roles = [str(role) for role in split]
    unknown = sorted(set(roles) - set(ROLES))
    if unknown:
        raise SettingsError(f"the role of a row is one of {list(ROLES)}, however: {unknown[:5]} came. Rename them.")
    return roles


def _array(x: Any) -> npt.NDArray[Any]:
    found = np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x)
    if found.ndim != 2 or not np.issubdtype(found.dtype, np.floating):
        raise SettingsError(
            f"vectors are a matrix [N, D] of floating-point numbers, however: {found.dtype} {list(found.shape)} came. "
            "Pool tokens, and convert integers."
        )
    return found


def _write(
    columns: dict[str, npt.NDArray[Any]],
    labels: Sequence[str],
    groups: Any,
    roles: Sequence[str] | None,
    folder: Path,
    ids: list[str] | None,
) -> Path:
    """Import the arrays from files beside the folder."""
    cells = {"label": labels, "group": groups, "split": roles, "id": ids}
    given = {name: [str(v) for v in values] for name, values in cells.items() if values is not None}
    lengths = {name: len(values) for name, values in (given | columns).items()}
    if len(set(lengths.values())) > 1:
        raise SettingsError(f"arrays have one entry for each row, however: their lengths are {lengths}. Align them.")
    manifest, vectors = folder.with_name("rows.parquet"), folder.with_name("vectors.pt")
    pq.write_table(pa.table(given), manifest)
    torch.save({name: torch.from_numpy(np.array(x)) for name, x in columns.items()}, vectors)
    import_vectors(vectors, manifest, folder, model="arrays in memory")
    vectors.unlink()
    return folder
