"""Converts tables to training data and evaluates heads on the validation and test rows."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from frostbench.benchmarks.runs.calibration_sides import Rows, both_sides
from frostbench.benchmarks.runs.record import Evaluation
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.ensemble import Predictive
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.heads.trained import TrainedHead
from frostbench.training.data.part import Data, Part
from frostbench.training.metrics.classification import all_metrics, brier, confidence, confusion, per_class

EVALUATED = ("select", "test")
"""Roles whose rows are evaluated; training, early stopping and calibration never use test rows."""
ROWS_AT_ONCE = 65_536
"""Number of rows evaluated at a time, whose float32 vectors are in memory."""


def table_to_data(table: FeatureTable, split: Split, columns: Sequence[str] | None = None, device: str = "cpu") -> Data:
    """Convert the training, validation and calibration rows of a table to float32 tensors, without test rows.

    If the vectors of the table are on disk, those of the training rows stay there.

    Args:
        table: the table.
        split: role of each row.
        columns: vector columns to use, or None for all, in the order of the table.
        device: device of the tensors, such as cpu or cuda.
    """
    parts = {role: part_of(table, split.roles == role, columns, device, seen=True) for role in ("select", "calibrate")}
    train = part_of(table, split.roles == "train", columns, device, on_disk=bool(table.stored))
    return Data(train, parts["select"], parts["calibrate"], table.class_names)


def part_of(
    table: FeatureTable,
    chosen: npt.NDArray[np.bool_],
    columns: Sequence[str] | None = None,
    device: str = "cpu",
    on_disk: bool = False,
    seen: bool = False,
) -> Part:
    """Convert the rows of a table where `chosen` [N] is true to float32 tensors, with groups if the table has any.

    `on_disk` leaves vectors on disk; `seen` adds the rows' test-time views.
    """
    names = [name for name in table.stored or table.columns if columns is None or name in columns]
    kept = {name: table.stored[name].only(chosen) for name in names} if on_disk else {}
    vectors = {} if on_disk else {n: torch.from_numpy(_vectors(table, n, chosen)).float().to(device) for n in names}
    labels = torch.from_numpy(table.labels[chosen]).to(device)
    also = {name: torch.from_numpy(x[chosen]).float().to(device) for name, x in table.also.items()} if seen else {}
    if not table.has_groups:
        return Part(vectors, labels, stored=kept, also=also)
    groups = torch.from_numpy(merge_groups(table.groups, table.content)[chosen])
    return Part(vectors, labels, groups.to(device), stored=kept, also=also)


def _vectors(table: FeatureTable, name: str, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.floating[Any]]:
    """Return the chosen rows of a column, in memory or on disk."""
    if not table.stored:
        vectors: npt.NDArray[np.floating[Any]] = table.columns[name][chosen]
        return vectors
    column = table.stored[name].only(chosen)
    return column.read(0, column.shape[0])


def with_recipes(head: TrainedHead, table: FeatureTable) -> TrainedHead:
    """Return the head with the recipe of each vector column it reads, so that it rejects vectors of other recipes."""
    recipes = {name: table.recipes[name] for name in head.columns}
    known = {name: recipe.model_dump(mode="json") | {"hash": recipe.hash} for name, recipe in recipes.items()}
    return replace(head, recipes=known)


def evaluate(
    head: Predictive,
    table: FeatureTable,
    split: Split,
    background: Sequence[int],
    held_out: CrossFitted | None = None,
) -> tuple[dict[str, Evaluation], pd.DataFrame]:
    """Evaluate a head on the validation and test rows; return evaluations by role, and outcomes by image.

    Args:
        head: the head.
        table: the table.
        split: role of each row.
        background: class indices left out of the foreground metrics.
        held_out: predictions to use for `select`: out-of-fold predictions for the training rows of a cross-validated
            run, or cross-fitted ones for validation rows that calibration or decisions are fitted to.

    Raises:
        ValueError: the split has neither validation nor test rows.
    """
    groups = _group_names(table)
    evaluations, outcomes = {}, []
    apart = _apart(head, table, split)
    for role in EVALUATED:
        is_held_out = held_out is not None and role == "select"
        chosen = split.roles == ("train" if is_held_out and split.folds is not None else role)
        if not chosen.any():
            continue
        predicted = held_out if held_out is not None and is_held_out else predictions(head, table, chosen)
        labels = torch.from_numpy(table.labels[chosen])
        rows = Rows(predicted.logits, labels, torch.from_numpy(np.unique(groups[chosen], return_inverse=True)[1]))
        evaluation = _evaluation(predicted, labels, head.counts, background)
        evaluations[role] = replace(evaluation, calibration=both_sides(rows, apart))
        # Without calibration rows, temperatures for the test rows are fitted to the validation rows.
        apart = apart or Calibration(predicted.logits, labels)
        known = {"id": table.ids[chosen], "role": role, "group": groups[chosen]}
        outcomes.append(pd.DataFrame(known | _outcomes(labels, predicted)))
    if not outcomes:
        raise ValueError(
            "A head needs validation or test rows to be evaluated on, but the split has neither. Give select or test a "
            "share."
        )
    return evaluations, pd.concat(outcomes, ignore_index=True)


def _apart(head: Predictive, table: FeatureTable, split: Split) -> Calibration | None:
    """Return the calibration rows of a split, or None if it has none."""
    chosen = split.roles == "calibrate"
    if not chosen.any():
        return None
    return Calibration(predictions(head, table, chosen).logits, torch.from_numpy(table.labels[chosen]))


def predictions(head: Predictive, table: FeatureTable, chosen: npt.NDArray[np.bool_]) -> CrossFitted:
    """Predict the chosen rows of a table in chunks, to limit memory."""
    logits, log_p = [], []
    rows = np.flatnonzero(chosen)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = np.zeros_like(chosen)
        some[rows[start : start + ROWS_AT_ONCE]] = True
        names = [name for name in table.stored or table.columns if name in head.columns]
        columns = {name: torch.from_numpy(_vectors(table, name, some)).float() for name in names}
        columns |= {name: torch.from_numpy(table.also[name][some]).float() for name in head.reads if name in table.also}
        logits.append(head.logits(columns))
        log_p.append(head.log_probabilities(columns))
    all_log_p = torch.cat(log_p)
    return CrossFitted(torch.cat(logits), all_log_p, head.decide(all_log_p))


def _evaluation(predicted: CrossFitted, labels: Tensor, counts: Tensor, background: Sequence[int]) -> Evaluation:
    table = confusion(labels, predicted.predicted, len(counts))
    by_class = {name: tuple(values.double().tolist()) for name, values in asdict(per_class(table)).items()}
    pairs = [(*pair, int(table[pair])) for pair in map(tuple, table.nonzero().tolist())]
    metrics = all_metrics(predicted.log_p, labels, counts, background, predicted.predicted)
    return Evaluation(metrics, by_class, tuple(pairs))


def _outcomes(labels: Tensor, predictions: CrossFitted) -> dict[str, npt.NDArray[Any]]:
    log_p, predicted = predictions.log_p, predictions.predicted
    values = {
        "label": labels,
        "predicted": predicted,
        "confidence": confidence(log_p, labels, predicted)[0],
        "confidence_raw": confidence(predictions.logits.double().log_softmax(1), labels, predicted)[0],
        "log_p": log_p.double().gather(1, labels[:, None]).squeeze(1),
        "brier": brier(log_p, labels),
    }
    return {name: value.numpy() for name, value in values.items()}


def _group_names(table: FeatureTable) -> npt.NDArray[np.str_]:
    """Return the group of each row [N]; groups that share an image are merged, as in the split."""
    merged = merge_groups(table.groups, table.content)
    first = np.unique(merged, return_index=True)[1]
    return np.asarray(table.groups[first][merged])
