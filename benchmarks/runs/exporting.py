"""Exports a row of a bench as a bundle: its best seed or an ensemble of all seeds, refitted if possible."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from frostbench.benchmarks.inference.canary import canary_for, canary_of
from frostbench.benchmarks.runs.ensembles import ensemble_of
from frostbench.benchmarks.runs.record import RunRecord, best_of
from frostbench.benchmarks.runs.refit import refitted, refitted_if_possible
from frostbench.benchmarks.runs.run_facts import environment
from frostbench.benchmarks.runs.store import DECISION_FILE, read_record, require_runs, run_folder
from frostbench.benchmarks.runs.streaming import columns_for
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.embedcache.splits.finding import split_with_hash
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle import export
from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.trained import TrainedHead
from frostbench.training.run import RunSpec

Seeds = Literal["best", "all"]


@dataclass(frozen=True)
class _Row:
    """Row of a bench on one cache: its runs or ensembles, one per seed, and the winning setting if it is tuned."""

    cache: str
    records: list[RunRecord]
    setting: str


def export_row(
    bench: BenchSpec,
    row: str,
    out: Path,
    cache: str | None = None,
    *,
    seeds: Seeds = "best",
    refit: bool | None = None,
    device: str = "cpu",
) -> str:
    """Write the bundle of a row to a new folder and return a sentence that describes it.

    Args:
        bench: bench whose runs are in its store.
        row: name of the row or ensemble.
        out: new folder of the bundle.
        cache: cache to export from; required if the bench has several.
        seeds: "best" for the run that is best on the validation rows, or "all" for an ensemble of all seeds.
        refit: whether to train each run again on training and validation rows (see
            `frostbench.benchmarks.runs.refit`). None refits if possible; otherwise the sentence states why not.
        device: device of the refit.

    Raises:
        SettingsError: the bench has no such row or cache.
        StoreError: a run of the row is not in the store.
        FileExistsError: the folder already exists.
        OutputError: the folder cannot be created.
        ValueError: all seeds are requested but there is only one, or a run cannot be refitted.
    """
    check_new_folder(out)
    source, store = _row_of(bench, row, cache), Path(bench.store)
    chosen = [best_of(source.records)] if seeds == "best" else source.records
    if seeds == "all" and len(chosen) < 2:
        raise ValueError(
            f"An ensemble of all seeds needs at least two, but the bench has only seed {chosen[0].seed}. Add seeds and "
            "run it again, or export without --seeds."
        )
    runs = _runs(store, chosen)
    message = f"{out}: row {row!r}{source.setting}, {_describe_seeds(seeds, chosen)}"
    heads, why_not = refitted_if_possible(bench, source.cache, runs, device, refit)
    message += f", not refitted: {why_not}" if why_not else ""
    decided = [run.key for run in runs if (run_folder(store, run.key) / DECISION_FILE).is_file()]
    message += "".join(f", without the decision kept for run {key} (export {store / key} for it)" for key in decided)
    if len(runs) == 1 and not heads:
        with new_folder(out) as partial:
            shutil.copytree(run_folder(store, runs[0].key) / "head", partial, dirs_exist_ok=True)
        return message
    head: Predictive = Ensemble(heads) if len(heads) > 1 else heads[0] if heads else ensemble_of(store, runs)
    if isinstance(head, Ensemble):
        head = replace(head, facts=_facts(row, chosen, runs, head if heads else None))
    export.save(head, out, canary_for(canary_of(Path(source.cache)), head.columns))
    return message + (f", refitted to {with_noun(int(head.counts.sum()), 'row')}" if heads else "")


def export_runs(
    store: Path, records: Sequence[RunRecord], cache: Path, out: Path, *, refit: bool = False, device: str = "cpu"
) -> None:
    """Write the bundle of a run, or of the ensemble of several, to a new folder.

    Unlike `export_row` this needs no bench: the split is the one that the cache stores for the runs.

    Args:
        store: their run store.
        records: one run, or several that differ in their seed.
        cache: cache that they were trained on.
        out: new folder of the bundle.
        refit: train each run again on training and validation rows first.
        device: device of the refit.

    Raises:
        RefitError: a refit is not possible.
        CacheError: the cache is damaged, or does not store the split of the runs.
        ValueError: a head is missing or damaged, or the heads cannot form an ensemble.
    """
    runs = _runs(store, records)
    heads = _refitted_from_store(store, runs, cache, device) if refit else ()
    if len(runs) == 1 and not refit:
        with new_folder(out) as partial:
            shutil.copytree(run_folder(store, runs[0].key) / "head", partial, dirs_exist_ok=True)
        return
    head: Predictive = heads[0] if len(heads) == 1 else Ensemble(heads) if heads else ensemble_of(store, runs)
    if isinstance(head, Ensemble):
        head = replace(head, facts=_facts("runs of one setting", records, runs, head if refit else None))
    export.save(head, out, canary_for(canary_of(cache), head.columns))


def _refitted_from_store(store: Path, runs: Sequence[RunRecord], cache: Path, device: str) -> tuple[TrainedHead, ...]:
    columns = columns_for(cache, [RunSpec.model_validate(run.full_spec) for run in runs])
    table = read_table(cache, columns)
    split = split_with_hash(cache, table, runs[0].data.split, store)
    return refitted(runs, table, split, str(resolve_device(device)))


def _row_of(bench: BenchSpec, row: str, cache: str | None) -> _Row:
    caches = bench.caches if cache is None else (cache,)
    if len(caches) > 1 or not set(caches) <= set(bench.caches):
        given = "none" if cache is None else repr(cache)
        raise SettingsError(
            f"The cache to export from must be one of {list(bench.caches)}, got {given}. Choose one with `--cache`."
        )
    (part,) = chosen_rows(bench.model_copy(update={"caches": caches}), [row])
    store, tuned = Path(bench.store), part.tuned.get(row)
    require_runs(store, part.rows, part.cache)
    setting = f" with {tuned.winner.name}" if tuned and tuned.was_chosen else ""
    return _Row(part.cache, [read_record(store, key) for key in part.rows[row]], setting)


def _runs(store: Path, records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the records of runs, with each ensemble replaced by its members."""
    return [run for record in records for run in [read_record(store, key) for key in record.members] or [record]]


def _describe_seeds(seeds: Seeds, records: Sequence[RunRecord]) -> str:
    if seeds == "all":
        return f"mean of seeds {', '.join(str(record.seed) for record in records)}"
    (best,) = records
    fallback = "" if best.selection_value is not None else " (the first seed, since there are no validation rows)"
    return f"seed {best.seed}{fallback}, run {best.key}"


def _facts(
    row: str, chosen: Sequence[RunRecord], runs: Sequence[RunRecord], refitted: Ensemble | None
) -> Mapping[str, Any]:
    """Return the facts stored with an ensemble; they have metrics only if it was evaluated, perhaps before a refit."""
    first = chosen[0]
    facts: dict[str, Any] = {"row": row, "seeds": [record.seed for record in chosen], "runs": [run.key for run in runs]}
    facts |= {"data": asdict(first.data), "environment": environment("cpu")}
    if refitted is not None:
        facts["data"] |= {"train_counts": refitted.counts.tolist()}
    if len(chosen) > 1:
        before = "" if refitted is None else ", before its refit to training and validation rows"
        note = (
            f"This ensemble of several seeds was not evaluated; each member's card has the metrics of its run{before}."
        )
        return facts | {"note": note}
    metrics = {role: evaluation.metrics for role, evaluation in first.evaluations.items()}
    if refitted is None:
        return facts | {"key": first.key, "metrics": metrics}
    note = (
        f"The members were refitted to training and validation rows. metrics_before are those of ensemble {first.key} "
        "before the refit; the refitted ensemble was not evaluated."
    )
    return facts | {"metrics_before": metrics, "note": note}
