"""Training runs anew on training and selection rows together, with what the selection rows chose for them kept."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from frostbench.benchmarks.runs.evaluate import environment, part_of, table_to_data, with_recipes
from frostbench.benchmarks.runs.keys import key_of, rows_of
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.runs.view_sets import with_averaged, with_views
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.posthoc.spec import NoCalibration, PriorAdjustment
from frostbench.heads.trained import TrainedHead
from frostbench.training.crossval.epoch_choice import fixed, paced
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import stepped_rows
from frostbench.training.engine.events import Choices, Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec


class RefitError(ValueError):
    """A run that cannot be refitted.

    Attributes:
        why: the rule and what came, without what to do.
    """

    def __init__(self, why: str, cure: str) -> None:
        super().__init__(f"{why} {cure}")
        self.why = why


CUT_SHORT = ("stopped", "diverged")
"""Ends of a run that never did all that its settings say, so that it cannot be repeated."""


def refitted_on(
    bench: BenchSpec, cache: str, records: Sequence[RunRecord], device: str = "cpu"
) -> tuple[TrainedHead, ...]:
    """Heads of runs of a bench on one of its caches, trained anew as `refitted` does it.

    Raises:
        RefitError: as `refitted`.
        ValueError: the cache is damaged, or there is no such device here.
    """
    where = str(resolve_device(device))
    table, split, _ = opened_to_train(cache, bench, rows_of(bench), where)
    return refitted(records, table, split, where)


def refitted_if_possible(
    bench: BenchSpec, cache: str, records: Sequence[RunRecord], device: str = "cpu", *, is_asked: bool = False
) -> tuple[tuple[TrainedHead, ...], str]:
    """Heads of runs trained anew as `refitted_on` does it, or none and why that cannot be done.

    Raises:
        RefitError: it is asked for, and cannot be done.
        ValueError: as in `refitted_on`.
    """
    try:
        return refitted_on(bench, cache, records, device), ""
    except RefitError as error:
        if is_asked:
            raise
        return (), error.why


def refitted(
    records: Sequence[RunRecord], table: FeatureTable, split: Split, device: str = "cpu"
) -> tuple[TrainedHead, ...]:
    """Heads of runs, trained anew on the training and selection rows of their split.

    Settings, the kept epoch of each stage, the power of tau-normalisation and the post-hoc strength are those of the
    runs. The number of epochs is that of the training rows alone, so that the kept epoch is at the same point of the
    schedule as it was (as cross-validation does it); with more rows an epoch has more steps. Class priors and weights
    follow the rows, calibration and decisions are fitted anew on the calibration rows, and test rows are not touched.
    Nothing is judged: the heads have seen the selection rows, and the facts of each say whose metrics they carry.

    Args:
        records: finished runs on this table and split.
        table: their table.
        split: the role of each of its rows.
        device: where training happens, such as cpu or cuda.

    Raises:
        RefitError: the split is cross-validated or has no selection rows, a run is of another table or split or did not
            end by itself, or training fails.
    """
    _check(records, table, split)
    asked = [RunSpec.model_validate(record.full_spec) for record in records]
    table = with_averaged(table, split, asked)
    rows = {role: int((split.roles == role).sum()) for role in ("train", "select")}
    data = joined(table, split, asked, device)
    # A view of a training row was a row of the run's schedule too.
    seen = [rows["train"] + stepped_rows(run, data) - len(data.train) for run in asked]
    each = zip(asked, records, seen, strict=True)
    runs = [repeated(run, record.chosen, count) for run, record, count in each]
    heads = map(_with_temperature, _trained(runs, data), asked, records)
    return tuple(
        replace(with_recipes(head, table), facts=_facts(record, head, rows, device))
        for record, head in zip(records, heads, strict=True)
    )


def _with_temperature(head: TrainedHead, run: RunSpec, record: RunRecord) -> TrainedHead:
    """The head with the automatic temperature of its run, where selection rows had a part in it: they now train."""
    found = record.chosen.temperature
    if found is None:
        return head
    numbers = {"temperature": torch.tensor(found, dtype=torch.float64)}
    return replace(head, layers=replace(head.layers, spec=run.posthoc, numbers=numbers))


def repeated(run: RunSpec, chosen: Choices, rows: int) -> RunSpec:
    """The run with all that was chosen for it on that many training rows given, save calibration and decisions."""
    spec = fixed(paced(run, rows), chosen.epochs, chosen.power or 0.0, chosen.tau)
    posthoc = run.posthoc.model_copy(update={"adjustment": PriorAdjustment(tau=chosen.tau)})
    if chosen.temperature is not None:
        posthoc = posthoc.model_copy(update={"calibration": NoCalibration(), "rows": "auto"})
    return spec.model_copy(update={"posthoc": posthoc})


def joined(table: FeatureTable, split: Split, runs: Sequence[RunSpec] = (), device: str = "cpu") -> Data:
    """Data whose training part holds the selection rows too, in the order of the table.

    The engine watches selection rows, so these are passed once more: with the epoch given they choose nothing. View
    sets are those of the training rows.
    """
    roles = np.where(split.roles == "select", "train", split.roles)
    select = part_of(table, split.roles == "select", device=device, seen=True)
    data = replace(table_to_data(table, replace(split, roles=roles), device=device), select=select)
    return with_views(data, table, split, runs, roles)


def _check_views(record: RunRecord, run: RunSpec, table: FeatureTable, split: Split) -> None:
    if run.view_sets and run.train.views != "samples":
        raise RefitError(
            f"selection rows have no views to train on, however: the run has train.views={run.train.views} over "
            f"{list(run.view_sets)}, which needs those of every image.",
            "Export with --no-refit.",
        )
    if (run.view_sets or run.tta) and key_of(table, split, run) != record.key:
        raise RefitError(
            f"a refit repeats a run on the views that it saw, however: {[*run.view_sets, *run.tta]} were made again "
            f"since run {record.key}.",
            "Run the bench again first.",
        )


def _check(records: Sequence[RunRecord], table: FeatureTable, split: Split) -> None:
    if split.folds is not None:
        raise RefitError(
            "a refit adds the selection rows to the training rows, however: this split is cross-validated, and its "
            "heads were fitted to all of these rows already.",
            "Export with --no-refit.",
        )
    if not (split.roles == "select").any():
        raise RefitError(
            "a refit adds the selection rows to the training rows, however: this split has no selection rows, so the "
            "head has seen all that it can be trained on.",
            "Export with --no-refit.",
        )
    for record in records:
        run = RunSpec.model_validate(record.full_spec)
        _check_views(record, run, table, split)
        if run.posthoc.rows in ("select", "both") and run.posthoc.needs_rows:
            raise RefitError(
                "calibration and decisions are fitted to rows that a head was not trained on, however: a refit trains "
                f"on the selection rows and posthoc.rows is {run.posthoc.rows}.",
                "Export with --no-refit, or give the split a calibrate share and set posthoc.rows=calibrate.",
            )
        if following := run.train.loss.following:
            raise RefitError(
                f"{' and '.join(following)} follows the calibration of rows that it is not fitted to, however: a refit "
                "fits all of them.",
                "Export with --no-refit, or use another train.loss.point.kind.",
            )
        if (record.data.table, record.data.split) != (table.content_hash, split.hash):
            raise RefitError(
                f"a refit needs the table and the split of its run, however: those of run {record.key} are others.",
                "Run the bench again; it trains what is not there.",
            )
        if record.reason in CUT_SHORT:
            raise RefitError(
                f"a refit repeats a run that ended by itself, however: run {record.key} {record.reason} at epoch "
                f"{record.epoch}.",
                "Export it with --no-refit, or train it again, with a lower learning rate if it diverged.",
            )


def _trained(runs: Sequence[RunSpec], data: Data) -> list[TrainedHead]:
    """The heads of the runs, in their order.

    Raises:
        RefitError: one diverged.
    """
    found: dict[int, TrainedHead] = {}
    for event in fit(runs, data):
        if isinstance(event, Failed) or (isinstance(event, Finished) and event.reason in CUT_SHORT):
            why = event.message if isinstance(event, Failed) else f"it {event.reason} after epoch {event.epoch}."
            raise RefitError(
                f"a refit trains to the epoch that was chosen, however, seed {runs[event.run].seed}: {why}",
                "Export with --no-refit, or lower the learning rate in the bench.",
            )
        if isinstance(event, Finished):
            found[event.run] = event.head
    return [found[number] for number in range(len(runs))]


def _facts(record: RunRecord, head: TrainedHead, rows: dict[str, int], device: str) -> dict[str, Any]:
    """What is kept with a refitted head: its run's facts, and that their metrics are of the head before."""
    total = sum(rows.values())
    note = (
        f"Refitted to {total} rows: {rows['train']} for training and {rows['select']} for selection. metrics_before "
        f"are those of run {record.key}, trained on the {rows['train']} alone; its selection rows have since been seen "
        "by this head, of which no metrics were computed. Those on test rows would be another look at them."
    )
    refit = {"of": record.key, "rows": total, "rows_by_role": rows, "chosen": asdict(record.chosen), "note": note}
    before = {role: evaluation.metrics for role, evaluation in record.evaluations.items()}
    data = asdict(record.data) | {"train_counts": head.priors.counts.tolist()}
    facts = {"run": record.full_spec, "refit": refit, "metrics_before": before, "data": data}
    return facts | {"notes_before": list(record.notes), "environment": environment(device)}
