"""Given roles: from the split column of a listing, or from a file of ids and roles."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.counting import things
from frostbench.embedcache.sources.text_tables import read_text_table
from frostbench.embedcache.splits.role_names import ROLE_OF, role_called
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable


def start_roles(table: FeatureTable, spec: SplitSpec) -> np.ndarray:
    """Return the role of each row before shares are taken, str [N].

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
            "source=given needs splits stated by the image source, but this cache was made without any. "
            "Use source=grouped_stratified, or embed from a manifest with a split column."
        )
    return _as_roles(table.split.tolist(), "A given split", "Correct the splits in the image source.")


def _listed(ids: np.ndarray, spec: SplitSpec) -> np.ndarray:
    """Return the roles [N] listed in a file."""
    path = Path(spec.roles_from)
    named, given = read_roles(path)
    roles = _as_roles(given, f"A role file ({path})", "Correct the column role.", trains=spec.unlisted == "train")
    role_of = dict(zip(named, roles.tolist(), strict=True))
    unknown = sorted(role_of.keys() - set(ids.tolist()))
    if unknown or len(role_of) < len(named):
        strange = f"{things(len(unknown), 'id is', 'ids are')} not in the table, such as"
        problem = f"{strange} {unknown[0]!r}" if unknown else "an id occurs twice"
        raise CacheError(
            f"A role file must list each row of the table once, but in {path} {problem}. The ids of the table look "
            f"like {ids[0]!r}. Correct the file; quarantined images have no row."
        )
    unlisted = [one for one in ids.tolist() if one not in role_of]
    if unlisted and spec.unlisted == "none":
        raise CacheError(
            f"A role file must list every row of the table, but {len(unlisted)} of {len(ids)} rows "
            f"{'is' if len(unlisted) == 1 else 'are'} not in {path}, such as {unlisted[0]!r}. Add such rows, or set "
            "`unlisted` to their role."
        )
    return np.array([role_of.get(one, spec.unlisted) for one in ids.tolist()], dtype="<U9")


def read_roles(path: Path) -> tuple[list[str], list[str]]:
    """Read the ids and roles in a CSV or Parquet file as text; "" for empty cells.

    Raises:
        CacheError: there is no such file, it cannot be read, or it lacks a column.
    """
    wanted, where = ("id", "role"), "Correct roles_from; relative paths start at the current folder."
    try:
        table = read_text_table(path, wanted, "a role file", "id and role")
        lacking = [name for name in wanted if name not in table.names]
        if lacking:
            raise ValueError(
                f"A role file must have the columns id and role, but {path} has {table.names}. Correct its header."
            )
        ids, roles = ([cell or "" for cell in column_texts(table.rows[n], n, str(path))] for n in wanted)
    except ValueError as error:
        raise CacheError(f"{error} {where}") from error
    return ids, roles


def _as_roles(given: Sequence[str], what: str, remedy: str, trains: bool = False) -> np.ndarray:
    """Turn given names into roles [N]; at least one role must be train, unless unlisted rows train."""
    roles = [role_called(name) for name in given]
    unknown = sorted({name for name, role in zip(given, roles, strict=True) if role is None})
    if unknown or not (trains or "train" in roles):
        problem = f"got {unknown[:5]}" if unknown else "no row has the role train"
        raise CacheError(
            f"{what} must give each row one of {sorted(ROLE_OF)}, and at least one row train, but {problem}. {remedy}"
        )
    return np.array(roles, dtype="<U9")
