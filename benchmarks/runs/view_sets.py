"""View sets of a cache as runs read them, and their part in the key of a run."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable
from frostbench.embedcache.views.sets import ViewSet, count_views, fingerprint, read_views
from frostbench.heads.trained import view_column
from frostbench.training.data.part import Data, Views
from frostbench.training.run import RunSpec

JUDGED = ("select", "calibrate", "test")
"""Roles whose rows have views that predictions are averaged over."""


def data_hash(table: FeatureTable, spec: RunSpec) -> str:
    """The hash of what a run reads: the table, and the columns of tokens and view sets that it names.

    Raises:
        CacheError: one of them is not there.
    """
    names = (*spec.view_sets, *spec.tta)
    found = {name: table.tokens[name].hash for name in spec.columns if name in table.tokens}
    found |= {f"views {name}": fingerprint(_folder(table), name) for name in names}
    if not found:
        return table.content_hash
    return hashlib.sha256(json.dumps([table.content_hash, found], sort_keys=True).encode()).hexdigest()


def with_views(
    data: Data,
    table: FeatureTable,
    split: Split,
    runs: Sequence[RunSpec],
    roles: npt.NDArray[np.str_] | None = None,
) -> Data:
    """The data with the view sets that some run trains on or averages over.

    Args:
        data: of the rows of the table.
        table: the table, with a folder.
        split: that the sets were made for.
        runs: what names them.
        roles: [N] of the rows in the data, where they are other than those of the split, as in a refit.

    Raises:
        CacheError: a set is not there, or was made for another role or another split.
    """
    device, is_train = data.train.labels.device, (split.roles == "train") if roles is None else (roles == "train")
    found = {
        name: _views(read_set(table, split, name, "train"), is_train, device) for name in _named(runs, "view_sets")
    }
    averaged = {name: _made(read_views(_folder(table), name, table)) for name in _named(runs, "tta")}
    return replace(data, views=found, averaged=averaged) if found or averaged else data


def rows_of_pass(table: FeatureTable, spec: RunSpec, rows: int) -> int:
    """How many rows a pass of a run has, with the views that it takes as rows of their own beside its training rows.

    Raises:
        CacheError: a set is not there.
    """
    if spec.train.views == "averaged":
        return rows
    return rows + sum(count_views(_folder(table), name) for name in spec.view_sets)


def with_averaged(table: FeatureTable, split: Split, runs: Sequence[RunSpec]) -> FeatureTable:
    """The table with the vectors of the views that some run averages its predictions over.

    Raises:
        CacheError: a set is not there, was made for another role or split, or lacks a view of a judged row.
    """
    also: dict[str, npt.NDArray[np.float16]] = {}
    judged = np.isin(split.roles, JUDGED)
    for name in _named(runs, "tta"):
        found = read_set(table, split, name, "eval")
        for number in range(found.about["count"]):
            chosen = found.numbers == number
            for column, x in found.table.columns.items():
                whole = np.full((len(table.ids), x.shape[1]), np.nan, np.float16)
                whole[found.rows[chosen]] = x[chosen]
                _check_whole(whole, judged, name, table)
                also[view_column(column, f"{name}#{number}")] = whole
    return replace(table, also=also) if also else table


def _check_whole(x: npt.NDArray[np.float16], judged: npt.NDArray[np.bool_], name: str, table: FeatureTable) -> None:
    lacking = judged & np.isnan(x[:, 0])
    if lacking.any():
        raise CacheError(
            f"predictions are averaged over the same views of every image, however: {int(lacking.sum())} judged "
            f"images lack one in {name!r}, the first is {table.ids[int(np.argmax(lacking))]!r}. Make the set again, or "
            "drop it."
        )


def _made(found: ViewSet) -> dict[str, dict[str, Any]]:
    """How each view of a set is made, by its name, as a head keeps it."""
    about = {"policy": found.about["policy"], "seed": found.about["seed"]}
    return {f"{found.name}#{number}": about | {"number": number} for number in range(found.about["count"])}


def _named(runs: Sequence[RunSpec], option: Literal["view_sets", "tta"]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in getattr(run, option)))


def read_set(table: FeatureTable, split: Split, name: str, role: str) -> ViewSet:
    """A view set of a cache for a role under a split.

    Raises:
        CacheError: it is not there, or was made for another role or another split.
    """
    found = read_views(_folder(table), name, table)
    if found.about["role"] != role:
        use = "trained on" if role == "train" else "averaged over"
        raise CacheError(
            f"views that are {use} have the role {role}, however: {name!r} has {found.about['role']}. Name another set."
        )
    if found.about["split"] != split.hash:
        raise CacheError(
            f"views are of the rows that a split gives to a role, however: {name!r} was made for split "
            f"{found.about['split'][:12]}… and the bench has {split.hash[:12]}…. Make a set for this split."
        )
    return found


def _folder(table: FeatureTable) -> Path:
    if table.folder is None:
        raise CacheError("view sets lie in the folder of a cache, however: this table was read from none.")
    return table.folder


def _views(found: ViewSet, chosen: npt.NDArray[np.bool_], device: torch.device) -> Views:
    """The views of training rows, numbered as the training part is."""
    place = np.cumsum(chosen) - 1
    rows = torch.from_numpy(place[found.rows])
    labels = found.table.labels
    partners = np.where(found.partner_labels < 0, labels, found.partner_labels)
    columns = {name: _tensor(x, device) for name, x in found.table.columns.items()}
    return Views(columns, rows.to(device), _index(partners, device), torch.from_numpy(found.shares).to(device))


def _tensor(x: npt.NDArray[np.float16], device: torch.device) -> Tensor:
    return torch.from_numpy(x.astype(np.float32)).to(device)


def _index(x: npt.NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(device)
