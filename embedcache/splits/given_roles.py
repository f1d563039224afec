"""Roles that are given: by the split column of a listing, or by a file of ids and roles."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.sources.text_tables import read_text_table
from frostbench.embedcache.splits.role_names import ROLE_OF, role_called
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable


def start_roles(table: FeatureTable, spec: SplitSpec) -> np.ndarray:
    """The role of each row before anything is cut, str [N].

    Raises:
        CacheError: the given roles are missing, partial or unknown, or leave nothing to train.
    """
    if spec.roles_from:
        roles = _listed(table.ids, spec)
    elif spec.source == "given":
        roles = _of_column(table)
    else:
        return np.full(len(table.ids), "train", dtype="<U9")
    return np.where(roles == "test", roles, "train") if spec.is_cross_validated else roles


def _of_column(table: FeatureTable) -> np.ndarray:
    if table.split is None:
        raise CacheError(
            "a given split needs a split column in the manifest, however: this cache was made without one. "
            "Use source grouped_stratified, or embed from a manifest with that column."
        )
    return _as_roles(table.split.tolist(), "a given split", "Correct the split column of the manifest.")


def _listed(ids: np.ndarray, spec: SplitSpec) -> np.ndarray:
    """The roles [N] of rows as a file lists them."""
    path = Path(spec.roles_from)
    named, given = read_roles(path)
    roles = _as_roles(given, f"a file of roles ({path})", "Correct the column role.", trains=spec.unlisted == "train")
    role_of = dict(zip(named, roles.tolist(), strict=True))
    unknown = sorted(role_of.keys() - set(ids.tolist()))
    if unknown or len(role_of) < len(named):
        told = f"{len(unknown)} of its ids are not, such as {unknown[0]!r}" if unknown else "an id occurs twice"
        raise CacheError(
            f"a file of roles names each row of the table once, however: in {path} {told}. The ids of the table look "
            f"like {ids[0]!r}; correct the file. Images of the quarantine have no row."
        )
    unlisted = [one for one in ids.tolist() if one not in role_of]
    if unlisted and spec.unlisted == "none":
        raise CacheError(
            f"a file of roles names each row of the table, however: {len(unlisted)} of {len(ids)} rows are not in "
            f"{path}, such as {unlisted[0]!r}. Add them, or set `unlisted` to the role that they are to have."
        )
    return np.array([role_of.get(one, spec.unlisted) for one in ids.tolist()], dtype="<U9")


def read_roles(path: Path) -> tuple[list[str], list[str]]:
    """The ids and the roles that a CSV or Parquet file lists, as text; "" where a cell is empty.

    Raises:
        CacheError: there is no such file, it cannot be read, or it lacks a column.
    """
    wanted, where = ("id", "role"), "Correct roles_from; relative paths start at the current folder."
    try:
        table = read_text_table(path, wanted, "a file of roles", "id and role")
        lacking = [name for name in wanted if name not in table.names]
        if lacking:
            raise ValueError(
                f"a file of roles has the columns id and role, however: {path} has {table.names}. Name them in its "
                "first line."
            )
        ids, roles = ([cell or "" for cell in column_texts(table.rows[n], n, str(path))] for n in wanted)
    except ValueError as error:
        raise CacheError(f"{error} {where}") from error
    return ids, roles


def _as_roles(given: Sequence[str], what: str, remedy: str, trains: bool = False) -> np.ndarray:
    """Given names as roles [N]; some row must train, unless others do."""
    roles = [role_called(name) for name in given]
    unknown = sorted({name for name, role in zip(given, roles, strict=True) if role is None})
    if unknown or not (trains or "train" in roles):
        raise CacheError(
            f"{what} must name each row one of {sorted(ROLE_OF)}, and some train, however: {unknown[:5]} came. {remedy}"
        )
    return np.array(roles, dtype="<U9")
