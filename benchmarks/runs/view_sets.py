"""Reads the view sets of a cache for runs, and hashes the data that a run reads."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable
from frostbench.embedcache.views.sets import ViewSet, count_views, fingerprint, read_views
from frostbench.heads.trained import view_column
from frostbench.training.data.part import Data, Views
from frostbench.training.run import RunSpec

AVERAGED = ("select", "calibrate", "test")
"""Roles whose rows have views that predictions are averaged over."""


def data_hash(table: FeatureTable, spec: RunSpec) -> str:
    """Return the hash of the data that a run reads: the table, and the token columns and view sets that it names.

    Raises:
        CacheError: a column or view set is missing.
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
    """Add to the data the view sets that runs train on or average over.

    Args:
        data: data of the table.
        table: table with a folder.
        split: split that the view sets were made for.
        runs: runs that name the view sets.
        roles: [N] roles of the rows in the data if they differ from those of the split, as in a refit.

    Raises:
        CacheError: a view set is missing, or was made for another role or another split.
    """
    device, is_train = data.train.labels.device, (split.roles == "train") if roles is None else (roles == "train")
    views = {
        name: _views(read_set(table, split, name, "train"), is_train, device) for name in _names(runs, "view_sets")
    }
    averaged = {name: _recipes(read_views(_folder(table), name, table)) for name in _names(runs, "tta")}
    return replace(data, views=views, averaged=averaged) if views or averaged else data


def rows_of_pass(table: FeatureTable, spec: RunSpec, rows: int) -> int:
    """Return the number of rows in an epoch of a run, counting views that are training rows of their own.

    Raises:
        CacheError: a view set is missing.
    """
    if spec.train.views == "averaged":
        return rows
    return rows + sum(count_views(_folder(table), name) for name in spec.view_sets)


def with_averaged(table: FeatureTable, split: Split, runs: Sequence[RunSpec]) -> FeatureTable:
    """Add to the table the vectors of the views that runs average their predictions over.

    Raises:
        CacheError: a view set is missing, was made for another role or split, or lacks a view of an evaluated row.
    """
    also: dict[str, npt.NDArray[np.float16]] = {}
    required = np.isin(split.roles, AVERAGED)
    for name in _names(runs, "tta"):
        views = read_set(table, split, name, "eval")
        for number in range(views.about["count"]):
            chosen = views.numbers == number
            for column, x in views.table.columns.items():
                vectors = np.full((len(table.ids), x.shape[1]), np.nan, np.float16)
                vectors[views.rows[chosen]] = x[chosen]
                _check_complete(vectors, required, name, table)
                also[view_column(column, f"{name}#{number}")] = vectors
    return replace(table, also=also) if also else table


def _check_complete(
    x: npt.NDArray[np.float16], required: npt.NDArray[np.bool_], name: str, table: FeatureTable
) -> None:
    missing = required & np.isnan(x[:, 0])
    if missing.any():
        lacking = with_noun(int(missing.sum()), "evaluated image lacks", "evaluated images lack")
        raise CacheError(
            f"Predictions are averaged over the same views of every image, but {lacking} a view in {name!r}; the first "
            f"is {table.ids[int(np.argmax(missing))]!r}. Make the view set again, or remove it."
        )


def _recipes(views: ViewSet) -> dict[str, dict[str, Any]]:
    """Return the recipe of each view of a set by name, as stored in a head."""
    about = {"policy": views.about["policy"], "seed": views.about["seed"]}
    return {f"{views.name}#{number}": about | {"number": number} for number in range(views.about["count"])}


def _names(runs: Sequence[RunSpec], option: Literal["view_sets", "tta"]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in getattr(run, option)))


def read_set(table: FeatureTable, split: Split, name: str, role: str) -> ViewSet:
    """Read a view set of a cache and check its role and split.

    Raises:
        CacheError: the set is missing, or was made for another role or another split.
    """
    views = read_views(_folder(table), name, table)
    if views.about["role"] != role:
        use = "training on views" if role == "train" else "averaging over views"
        raise CacheError(
            f"{use.capitalize()} needs a set with role {role}, but {name!r} has role {views.about['role']}. Name "
            "another set."
        )
    if views.about["split"] != split.hash:
        raise CacheError(
            f"A view set must be made for the split of the bench, but {name!r} was made for split "
            f"{views.about['split'][:12]}… and the bench has {split.hash[:12]}…. Make a set for this split."
        )
    return views


def _folder(table: FeatureTable) -> Path:
    if table.folder is None:
        raise CacheError("View sets belong to a cache, but this table was not read from one. Open a cache instead.")
    return table.folder


def _views(views: ViewSet, chosen: npt.NDArray[np.bool_], device: torch.device) -> Views:
    """Convert views of training rows to tensors, with row indices into the training part."""
    index = np.cumsum(chosen) - 1
    labels = views.table.labels
    partners = np.ascontiguousarray(np.where(views.partner_labels < 0, labels, views.partner_labels))
    columns = {name: torch.from_numpy(x.astype(np.float32)).to(device) for name, x in views.table.columns.items()}
    rows = torch.from_numpy(index[views.rows]).to(device)
    shares = torch.from_numpy(views.shares).to(device)
    return Views(columns, rows, torch.from_numpy(partners).to(device), shares)
