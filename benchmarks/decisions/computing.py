"""Computes the logits of a run's held-out images from its head and its cache, and keeps them in the store."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from frostbench.benchmarks.decisions.head_numbers import TEMPERATURES
from frostbench.benchmarks.decisions.stored_logits import StoredLogits, save_logits
from frostbench.benchmarks.runs.evaluate import EVALUATED, predictions
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record, run_folder
from frostbench.benchmarks.runs.view_sets import with_averaged
from frostbench.embedcache.splits.files import SplitReport
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable, read_table
from frostbench.heads.bundle.export import load_head
from frostbench.heads.trained import TrainedHead
from frostbench.training.run import RunSpec

TOLERANCE = 1e-3
"""Largest difference to a stored probability before the vectors count as others; devices differ by about 1e-5."""
NO_REPORT = SplitReport(counts={}, groups={}, missing={}, forced=(), small=(), warnings=())


def compute_logits(store: Path, key: str, cache: Path, plugins: Sequence[str | Path] = ()) -> Path:
    """Compute and keep the logits of a run on its held-out images; return the path of the file.

    They are compared with the probabilities that the run stored. The validation images of a cross-validated run are
    left out, since its final head was trained on them.

    Args:
        store: the run store.
        key: key of the run.
        cache: cache whose vectors the run was evaluated on.
        plugins: .py files that may be executed if the head is a plugin.

    Raises:
        StoreError: the run has no head or no held-out images, the cache lacks some of them, or its vectors are others.
        ValueError: the head or the cache cannot be read.
    """
    record, folder = read_record(store, key), run_folder(store, key) / "head"
    if not folder.is_dir():
        raise StoreError(f"Logits need the head of a run, but run {key} keeps none. Choose a setting with heads.")
    head, roles = load_head(folder, plugins), _roles(record)
    outcomes = {role: read_outcomes(store, key, role) for role in roles}
    table = read_table(cache, stored=True)
    head.check_recipes({name: one.model_dump(mode="json") | {"hash": one.hash} for name, one in table.recipes.items()})
    place = {name: row for row, name in enumerate(table.ids.tolist())}
    rows = {role: _rows(frame["id"].tolist(), place, key, cache) for role, frame in outcomes.items()}
    table = _with_views(table, head, record, rows)
    found = {}
    for role, at in rows.items():
        chosen = np.zeros(len(table.ids), bool)
        chosen[at] = True
        said = predictions(head, table, chosen)
        order = np.searchsorted(np.flatnonzero(chosen), at)
        _check(said.logits[order], outcomes[role], key, cache)
        kept = said.logits if head.layers.spec.calibration.kind in TEMPERATURES else said.log_p
        found[role] = kept[order].float().numpy()
    is_plain = head.layers.spec.calibration.kind in TEMPERATURES
    return save_logits(store, key, StoredLogits("logits" if is_plain else "log_p", found))


def _roles(record: RunRecord) -> list[str]:
    roles = [role for role in EVALUATED if role in record.evaluations and (role == "test" or not record.data.folds)]
    if not roles:
        raise StoreError(
            f"Logits are those of images that the head was not trained on, but the cross-validated run {record.key} "
            "was in the end trained on all of them. Choose a run with a validation share."
        )
    return roles


def _rows(ids: Sequence[str], place: dict[str, int], key: str, cache: Path) -> np.ndarray:
    """Return the row of each id in the table."""
    missing = [name for name in ids if name not in place]
    if missing:
        raise StoreError(
            f"The cache must hold every held-out image of run {key}, but {cache} lacks {len(missing)} of {len(ids)}; "
            f"the first is {missing[0]!r}. Restore them, or train again."
        )
    return np.array([place[name] for name in ids])


def _with_views(table: FeatureTable, head: TrainedHead, record: RunRecord, rows: dict[str, np.ndarray]) -> FeatureTable:
    """Add the vectors of the views that the head averages over."""
    if not head.views:
        return table
    roles = np.full(len(table.ids), "none", dtype="<U9")
    for role, at in rows.items():
        roles[at] = role
    names = tuple(dict.fromkeys(name.rsplit("#", 1)[0] for name in head.views))
    return with_averaged(table, Split(roles, record.data.split, NO_REPORT), [RunSpec(tta=names)])


def _check(logits: torch.Tensor, outcomes: pd.DataFrame, key: str, cache: Path) -> None:
    """Compare with the uncalibrated probabilities that the run stored."""
    p = logits.double().softmax(1).numpy()[np.arange(len(logits)), outcomes["predicted"]]
    worst = float(np.abs(p - outcomes["confidence_raw"].to_numpy()).max())
    if not worst <= TOLERANCE:
        raise StoreError(
            f"The vectors must be those that run {key} was evaluated on, but with {cache} a probability differs by "
            f"{worst:.3f}. Restore the cache, or train again."
        )
