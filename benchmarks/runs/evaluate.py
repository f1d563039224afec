"""From a table to training data, and from a trained head to its record."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from frostbench.benchmarks.runs.calibration_sides import Rows, both_sides
from frostbench.benchmarks.runs.record import DataFacts, Evaluation, RunRecord
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.card import versions
from frostbench.heads.ensemble import Predictive
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.heads.spec import canonical
from frostbench.heads.trained import TrainedHead
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.metrics.classification import (
    all_metrics,
    brier,
    confidence,
    confusion,
    per_class,
)
from frostbench.training.metrics.counts import shot_of
from frostbench.training.run import RunSpec

EVALUATED = ("select", "test")
"""Roles whose rows are evaluated. Training, early stopping and calibration never see the rows of test."""
ROWS_AT_ONCE = 65_536
"""Rows whose float32 vectors are in memory for an evaluation."""


def table_to_data(table: FeatureTable, split: Split, columns: Sequence[str] | None = None, device: str = "cpu") -> Data:
    """The rows of a table that training may see, as float32 tensors: train, select and calibrate, never test.

    Of a table whose vectors stay on disk, those of the training rows do too.

    Args:
        table: the table.
        split: the role of each of its rows.
        columns: vector columns to take; None takes all, in the order of the table.
        device: where the tensors live, such as cpu or cuda.
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
    """The rows of a table where chosen [N] is true, as float32 tensors, with their groups where those were stated.

    Vectors that are on disk are read, or left there. Rows that are judged (seen) have the views of their images too.
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
    """The chosen rows of a column, wherever it is."""
    if not table.stored:
        found: npt.NDArray[np.floating[Any]] = table.columns[name][chosen]
        return found
    column = table.stored[name].only(chosen)
    return column.read(0, column.shape[0])


def with_recipes(head: TrainedHead, table: FeatureTable) -> TrainedHead:
    """The head with the identity of each vector column it reads, so that it refuses vectors of another recipe."""
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
    """What a head does on the rows of select and test, as far as the split has any: by role, and image by image.

    Args:
        head: the head.
        table: the table.
        split: the role of each of its rows.
        background: class indices left out of the foreground.
        held_out: judged as select: of a cross-validated run, answers for its training rows by heads that did not see
            them; of one whose calibration or decisions are fitted to selection rows, those for them by cross-fitting.
    """
    groups = _group_names(table)
    found, outcomes = {}, []
    apart = _apart(head, table, split)
    for role in EVALUATED:
        is_held_out = held_out is not None and role == "select"
        chosen = split.roles == ("train" if is_held_out and split.folds is not None else role)
        if not chosen.any():
            continue
        answers = held_out if held_out is not None and is_held_out else predictions(head, table, chosen)
        labels = torch.from_numpy(table.labels[chosen])
        rows = Rows(answers.logits, labels, torch.from_numpy(np.unique(groups[chosen], return_inverse=True)[1]))
        found[role] = replace(
            _evaluation(answers, labels, head.counts, background), calibration=both_sides(rows, apart)
        )
        # Without calibration rows, temperatures for the test rows are fitted to the selection rows.
        apart = apart or Calibration(answers.logits, labels)
        known = {"id": table.ids[chosen], "role": role, "group": groups[chosen]}
        outcomes.append(pd.DataFrame(known | _outcomes(labels, answers)))
    if not outcomes:
        raise ValueError(
            "a head is judged on rows of select or test, however: the split has neither. Give one of them a share."
        )
    return found, pd.concat(outcomes, ignore_index=True)


def _apart(head: Predictive, table: FeatureTable, split: Split) -> Calibration | None:
    """The calibration rows of a split; None where it has none."""
    chosen = split.roles == "calibrate"
    if not chosen.any():
        return None
    return Calibration(predictions(head, table, chosen).logits, torch.from_numpy(table.labels[chosen]))


def predictions(head: Predictive, table: FeatureTable, chosen: npt.NDArray[np.bool_]) -> CrossFitted:
    """Answers for the chosen rows of a table, some of which are in memory at a time."""
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
    whole = torch.cat(log_p)
    return CrossFitted(torch.cat(logits), whole, head.decide(whole))


def _evaluation(answers: CrossFitted, labels: Tensor, counts: Tensor, background: Sequence[int]) -> Evaluation:
    table = confusion(labels, answers.predicted, len(counts))
    each = {name: tuple(values.double().tolist()) for name, values in asdict(per_class(table)).items()}
    pairs = [(*place, int(table[place])) for place in map(tuple, table.nonzero().tolist())]
    metrics = all_metrics(answers.log_p, labels, counts, background, answers.predicted)
    return Evaluation(metrics, each, tuple(pairs))


def _outcomes(labels: Tensor, answers: CrossFitted) -> dict[str, npt.NDArray[Any]]:
    log_p, predicted = answers.log_p, answers.predicted
    found = {
        "label": labels,
        "predicted": predicted,
        "confidence": confidence(log_p, labels, predicted)[0],
        "confidence_raw": confidence(answers.logits.double().log_softmax(1), labels, predicted)[0],
        "log_p": log_p.double().gather(1, labels[:, None]).squeeze(1),
        "brier": brier(log_p, labels),
    }
    return {name: values.numpy() for name, values in found.items()}


def _group_names(table: FeatureTable) -> npt.NDArray[np.str_]:
    """The group of each row [N]; groups that hold the same image count as one, as they do in the split."""
    merged = merge_groups(table.groups, table.content)
    first = np.unique(merged, return_index=True)[1]
    return np.asarray(table.groups[first][merged])


def record_of(
    key: str,
    run: RunSpec,
    finished: Finished,
    curve: Sequence[Epoch],
    data: DataFacts,
    evaluations: Mapping[str, Evaluation],
    device: str,
) -> RunRecord:
    """The record of a finished run that was trained on a device."""
    head = finished.head
    names = list(curve[0].metrics) if curve else []
    logs = {name: tuple(event.logs.get(name) for event in curve) for name in (curve[0].logs if curve else ())}
    by_epoch: dict[str, tuple[float | None, ...]] = {"loss": tuple(event.loss for event in curve)} if curve else {}
    return RunRecord(
        format_version=1,
        key=key,
        engine=ENGINE_VERSION,
        spec=canonical(run),
        full_spec=run.model_dump(mode="json"),
        data=data,
        evaluations=dict(evaluations),
        shot=tuple(shot_of(count) for count in data.train_counts),
        temperature=head.temperature,
        reason=finished.reason,
        epoch=finished.epoch,
        seconds=finished.seconds,
        gradient_norm=finished.gradient_norm,
        curve=by_epoch | {name: tuple(event.metrics[name] for event in curve) for name in names} | logs,
        environment=environment(device),
        chosen=finished.chosen,
        notes=head.warnings,
    )


def data_facts(cache: str, table: FeatureTable, split: Split, head: Predictive, background: Sequence[int]) -> DataFacts:
    """What a head was trained and evaluated on."""
    return DataFacts(
        cache=cache,
        table=table.content_hash,
        split=split.hash,
        columns=head.columns,
        class_names=table.class_names,
        background=tuple(background),
        rows=dict(split.report.counts),
        groups=dict(split.report.groups),
        train_counts=tuple(head.counts.tolist()),
        missing=dict(split.report.missing),
        small=split.report.small,
        forced=split.report.forced,
        warnings=split.report.warnings,
        folds=0 if split.folds is None else int(split.folds.max()) + 1,
    )


def environment(device: str) -> dict[str, str]:
    """What may move the low bits of a run: versions, threads, the machine's type and the device."""
    here = {"python": platform.python_version(), "machine": platform.machine(), "device": device}
    return here | {"threads": str(torch.get_num_threads())} | versions()
