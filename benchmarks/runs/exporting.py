"""Taking a row of a bench away: the bundle of its best seed or of all seeds together, refitted if asked."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from frostbench.benchmarks.inference.canary import canary_for, canary_of
from frostbench.benchmarks.runs.ensembles import ensemble_of
from frostbench.benchmarks.runs.evaluate import environment
from frostbench.benchmarks.runs.record import RunRecord, best_of
from frostbench.benchmarks.runs.refit import refitted_if_possible
from frostbench.benchmarks.runs.store import read_record, require_runs, run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.heads.bundle import export
from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.trained import TrainedHead

Seeds = Literal["best", "all"]


@dataclass(frozen=True)
class _Row:
    """A row of a bench on one cache: its runs or ensembles, one per seed, and the setting that won if it is tuned."""

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
    """Write the bundle of a row to a new folder; returns a sentence about it.

    Args:
        bench: the bench, whose runs are in its store.
        row: name of the row, or of an ensemble.
        out: a new folder.
        cache: which cache, where the bench has several.
        seeds: the run that is best on the selection rows, or an ensemble of those of all seeds.
        refit: train each run anew on training and selection rows (see `frostbench.benchmarks.runs.refit`); where that
            is left open, this is done if it can be, and the sentence says why not.
        device: where a refit happens.

    Raises:
        SettingsError: the bench has no such row or cache.
        StoreError: a run of the row is not in the store.
        FileExistsError: the folder exists already.
        OutputError: it cannot be made.
        ValueError: there is one seed and all are asked for, or a run cannot be refitted.
    """
    check_new_folder(out)
    found = _found(bench, row, cache)
    taken = [best_of(found.records)] if seeds == "best" else found.records
    _check_several(seeds, taken)
    runs = _runs(Path(bench.store), taken)
    told = f"{out}: row {row!r}{found.setting}, {_seeds_in_words(seeds, taken)}"
    again, why_not = (
        refitted_if_possible(bench, found.cache, runs, device, is_asked=bool(refit)) if refit is not False else ((), "")
    )
    told += f", not refitted: {why_not}" if why_not else ""
    if len(runs) == 1 and not again:
        with new_folder(out) as partial:
            shutil.copytree(run_folder(Path(bench.store), runs[0].key) / "head", partial, dirs_exist_ok=True)
        return told
    head = _one(again) if again else ensemble_of(Path(bench.store), runs)
    if isinstance(head, Ensemble):
        head = replace(head, facts=_facts(row, taken, runs, head if again else None))
    export.save(head, out, canary_for(canary_of(Path(found.cache)), head.columns))
    return told + (f", refitted to {int(head.counts.sum())} rows" if again else "")


def _found(bench: BenchSpec, row: str, cache: str | None) -> _Row:
    name = cache or (bench.caches[0] if len(bench.caches) == 1 else "")
    if name not in bench.caches:
        raise SettingsError(
            f"a cache of this bench is one of {list(bench.caches)}, however: {name!r} came. Give --cache."
        )
    (part,) = chosen_rows(bench.model_copy(update={"caches": (name,)}), [row])
    store, tuned = Path(bench.store), part.tuned.get(row)
    require_runs(store, part.rows, name)
    setting = f" with {tuned.winner.name}" if tuned and tuned.was_chosen else ""
    return _Row(name, [read_record(store, key) for key in part.rows[row]], setting)


def _check_several(seeds: Seeds, records: Sequence[RunRecord]) -> None:
    if seeds == "all" and len(records) < 2:
        raise ValueError(
            f"an ensemble of all seeds needs two or more, however: the bench has seed {records[0].seed} alone. Add "
            "seeds and run it again, or export without --seeds."
        )


def _runs(store: Path, records: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs themselves, those of ensembles by their members."""
    members = [[read_record(store, key) for key in record.members] or [record] for record in records]
    return [run for each in members for run in each]


def _seeds_in_words(seeds: Seeds, records: Sequence[RunRecord]) -> str:
    if seeds == "all":
        return f"mean of seeds {', '.join(str(record.seed) for record in records)}"
    (best,) = records
    unchosen = "" if best.selection_value is not None else " (the first seed, for want of selection rows)"
    return f"seed {best.seed}{unchosen}, run {best.key}"


def _one(heads: tuple[TrainedHead, ...]) -> Predictive:
    return heads[0] if len(heads) == 1 else Ensemble(heads)


def _facts(
    row: str, taken: Sequence[RunRecord], runs: Sequence[RunRecord], refitted: Ensemble | None
) -> Mapping[str, Any]:
    """What is kept with an ensemble; figures only where one was judged as it is, or before its refit."""
    first = taken[0]
    facts: dict[str, Any] = {"row": row, "seeds": [record.seed for record in taken], "runs": [run.key for run in runs]}
    facts |= {"data": asdict(first.data), "environment": environment("cpu")}
    if refitted is not None:
        facts["data"] |= {"train_counts": refitted.counts.tolist()}
    if len(taken) > 1:
        before = "" if refitted is None else ", before its refit to training and selection rows"
        note = f"This ensemble of several seeds was not judged; each member's card has the figures of its run{before}."
        return facts | {"note": note}
    metrics = {role: evaluation.metrics for role, evaluation in first.evaluations.items()}
    if refitted is None:
        return facts | {"key": first.key, "metrics": metrics}
    note = (
        f"The members were refitted to training and selection rows. metrics_before are those of ensemble {first.key}, "
        "of the heads before; none were computed of these."
    )
    return facts | {"metrics_before": metrics, "note": note}
