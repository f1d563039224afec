"""Trains runs again on training and validation rows together, keeping the choices made on the validation rows."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from frostbench.benchmarks.runs.evaluate import part_of, table_to_data, with_recipes
from frostbench.benchmarks.runs.keys import key_of, rows_of
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.run_facts import environment
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.runs.view_sets import with_averaged, with_views
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.posthoc.spec import NoCalibration, PriorAdjustment
from frostbench.heads.titles import named
from frostbench.heads.trained import TrainedHead
from frostbench.training.crossval.epoch_choice import fixed, paced
from frostbench.training.data.part import Data
from frostbench.training.data.view_rows import stepped_rows
from frostbench.training.engine.events import Choices, Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec


class RefitError(ValueError):
    """A run cannot be refitted.

    Attributes:
        why: the reason, without the advice on what to do.
    """

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(f"{why} {advice}")
        self.why = why


CUT_SHORT = ("stopped", "diverged")
"""Reasons why a run ended early, so that it cannot be repeated."""


def refitted_on(
    bench: BenchSpec, cache: str, records: Sequence[RunRecord], device: str = "cpu"
) -> tuple[TrainedHead, ...]:
    """Refit runs of a bench on one of its caches and return their heads, as `refitted` does.

    Raises:
        RefitError: as in `refitted`.
        ValueError: the cache is damaged, or the device does not exist.
    """
    resolved = str(resolve_device(device))
    table, split, _ = opened_to_train(cache, bench, rows_of(bench), resolved)
    return refitted(records, table, split, resolved)


def refitted_if_possible(
    bench: BenchSpec, cache: str, records: Sequence[RunRecord], device: str, refit: bool | None
) -> tuple[tuple[TrainedHead, ...], str]:
    """Refit runs if `refit` is True, or if it is None and a refit is possible; return (heads, "") or ((), reason).

    Raises:
        RefitError: `refit` is True and a refit is not possible.
        ValueError: as in `refitted_on`.
    """
    if refit is False:
        return (), ""
    try:
        return refitted_on(bench, cache, records, device), ""
    except RefitError as error:
        if refit:
            raise
        return (), error.why


def refitted(
    records: Sequence[RunRecord], table: FeatureTable, split: Split, device: str = "cpu"
) -> tuple[TrainedHead, ...]:
    """Train runs again on the training and validation rows of their split and return the heads.

    Settings, the kept epoch of each stage, the power of tau-normalisation and the post-hoc strength are those of the
    runs. The number of epochs is that for the training rows alone, so that the kept epoch is at the same point of the
    schedule (as in cross-validation); with more rows an epoch has more steps. Class priors and weights follow the new
    rows, calibration and decisions are fitted again on the calibration rows, and test rows are not used. The heads are
    not evaluated, since they have seen the validation rows; their facts state which metrics they carry.

    Args:
        records: finished runs on this table and split.
        table: table of the runs.
        split: role of each row.
        device: device for training, such as cpu or cuda.

    Raises:
        RefitError: the split is cross-validated or has no validation rows, a run belongs to another table or split or
            ended early, or training fails.
    """
    _check(records, table, split)
    specs = [RunSpec.model_validate(record.full_spec) for record in records]
    table = with_averaged(table, split, specs)
    rows = {role: int((split.roles == role).sum()) for role in ("train", "select")}
    data = joined(table, split, specs, device)
    # Views of training rows count as rows of the run's schedule.
    counts = [rows["train"] + stepped_rows(spec, data) - len(data.train) for spec in specs]
    originals = zip(specs, records, counts, strict=True)
    runs = [repeated(spec, record.chosen, count) for spec, record, count in originals]
    heads = map(_with_temperature, _trained(runs, data), specs, records)
    return tuple(
        replace(with_recipes(head, table), facts=_facts(record, head, rows, device))
        for record, head in zip(records, heads, strict=True)
    )


def _with_temperature(head: TrainedHead, run: RunSpec, record: RunRecord) -> TrainedHead:
    """Keep the automatic temperature of the run if it was fitted to validation rows, which are now training rows."""
    if record.chosen.temperature is None:
        return head
    numbers = {"temperature": torch.tensor(record.chosen.temperature, dtype=torch.float64)}
    return replace(head, layers=replace(head.layers, spec=run.posthoc, numbers=numbers))


def repeated(run: RunSpec, chosen: Choices, rows: int) -> RunSpec:
    """Return the run with its epochs on `rows` rows and these choices fixed; calibration and decisions stay free."""
    spec = fixed(paced(run, rows), chosen.epochs, chosen.power or 0.0, chosen.tau)
    posthoc = run.posthoc.model_copy(update={"adjustment": PriorAdjustment(tau=chosen.tau)})
    if chosen.temperature is not None:
        posthoc = posthoc.model_copy(update={"calibration": NoCalibration(), "rows": "auto"})
    return spec.model_copy(update={"posthoc": posthoc})


def joined(table: FeatureTable, split: Split, runs: Sequence[RunSpec] = (), device: str = "cpu") -> Data:
    """Return data whose training part also contains the validation rows, in the order of the table.

    The engine requires validation rows, so they are also passed as such; since the epoch is fixed, they decide nothing.
    View sets are those of the training rows.
    """
    roles = np.where(split.roles == "select", "train", split.roles)
    select = part_of(table, split.roles == "select", device=device, seen=True)
    data = replace(table_to_data(table, replace(split, roles=roles), device=device), select=select)
    return with_views(data, table, split, runs, roles)


def _check_views(record: RunRecord, run: RunSpec, table: FeatureTable, split: Split) -> None:
    if run.view_sets and run.train.views != "samples":
        raise RefitError(
            f"A refit trains on validation rows, which have no views, but {named(RunSpec, 'train.views')} is "
            f"{run.train.views} with view sets {list(run.view_sets)}, which needs views of every row.",
            "Export with --no-refit.",
        )
    if (run.view_sets or run.tta) and key_of(table, split, run) != record.key:
        raise RefitError(
            f"A refit needs the views that the run was trained on, but {[*run.view_sets, *run.tta]} were made again "
            f"after run {record.key}.",
            "Run the bench again first.",
        )


def _check(records: Sequence[RunRecord], table: FeatureTable, split: Split) -> None:
    if split.folds is not None:
        raise RefitError(
            "A refit adds the validation rows to the training rows, but with this cross-validated split the head is "
            "already fitted to all rows.",
            "Export with --no-refit.",
        )
    if not (split.roles == "select").any():
        raise RefitError(
            "A refit adds the validation rows to the training rows, but this split has no validation rows.",
            "Export with --no-refit.",
        )
    for record in records:
        run = RunSpec.model_validate(record.full_spec)
        _check_views(record, run, table, split)
        _check_run(record, run, table, split)


def _check_run(record: RunRecord, run: RunSpec, table: FeatureTable, split: Split) -> None:
    if run.shots:
        raise RefitError(
            f"A refit adds the validation rows to the training rows, but {named(RunSpec, 'shots')} is {run.shots}, "
            "which leaves most training rows out.",
            "Export with --no-refit.",
        )
    if run.posthoc.rows in ("select", "both") and run.posthoc.needs_rows:
        raise RefitError(
            "Calibration and decisions must be fitted to rows that the head was not trained on, but a refit trains on "
            f"the validation rows and {named(RunSpec, 'posthoc.rows')} is {run.posthoc.rows}.",
            "Export with --no-refit, or give the split a calibrate share and set posthoc.rows=calibrate.",
        )
    if following := run.train.loss.following:
        raise RefitError(
            f"{' and '.join(following)} follows the calibration on validation rows, but a refit trains on them.",
            f"Export with --no-refit, or use another {named(RunSpec, 'train.loss.point.kind')}.",
        )
    if (record.data.table, record.data.split) != (table.content_hash, split.hash):
        raise RefitError(
            f"A refit needs the table and the split of its run, but run {record.key} was trained on others.",
            "Run the bench again; it trains only missing runs.",
        )
    if record.reason in CUT_SHORT:
        raise RefitError(
            f"A refit repeats a run to its chosen epoch, but run {record.key} {record.reason} at epoch {record.epoch}.",
            "Export it with --no-refit, or train it again, with a lower learning rate if it diverged.",
        )


def _trained(runs: Sequence[RunSpec], data: Data) -> list[TrainedHead]:
    """Train runs and return their heads in order; raises RefitError if a run diverges."""
    heads: dict[int, TrainedHead] = {}
    for event in fit(runs, data):
        if isinstance(event, Failed) or (isinstance(event, Finished) and event.reason in CUT_SHORT):
            why = event.message if isinstance(event, Failed) else f"it {event.reason} after epoch {event.epoch}."
            raise RefitError(
                f"The refit of seed {runs[event.run].seed} failed: {why}",
                "Export with --no-refit, or lower the learning rate in the bench.",
            )
        if isinstance(event, Finished):
            heads[event.run] = event.head
    return [heads[number] for number in range(len(runs))]


def _facts(record: RunRecord, head: TrainedHead, rows: dict[str, int], device: str) -> dict[str, Any]:
    """Return the facts stored with a refitted head: those of its run, with its metrics as `metrics_before`."""
    total, trained = sum(rows.values()), with_noun(rows["train"], "training row")
    note = (
        f"Refitted to {with_noun(total, 'row')}: {trained} and {with_noun(rows['select'], 'validation row')}. "
        f"metrics_before are those of run {record.key}, trained on the {trained}. The refitted head was not evaluated, "
        "since it has seen the validation rows, and test rows should be used only once."
    )
    refit = {"of": record.key, "rows": total, "rows_by_role": rows, "chosen": asdict(record.chosen), "note": note}
    before = {role: evaluation.metrics for role, evaluation in record.evaluations.items()}
    data = asdict(record.data) | {"train_counts": head.priors.counts.tolist()}
    facts = {"run": record.full_spec, "refit": refit, "metrics_before": before, "data": data}
    return facts | {"notes_before": list(record.notes), "environment": environment(device)}
