"""Running, comparing and exporting the rows of a bench."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import typer

from app.progress import bar, note, resumable
from benchmarks.compare import Comparison
from benchmarks.compare import compare as compare_rows
from benchmarks.events import (
    BenchDone,
    BenchEvent,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunSkipped,
)
from benchmarks.plan import BenchSpec
from benchmarks.record import best_of
from benchmarks.report import write_report
from benchmarks.runner import bench_rows, run_bench
from benchmarks.settings import SettingsError, load_yaml, parse, read_overrides
from benchmarks.store import read_record, require_runs, run_folder
from benchmarks.tables import save
from heads.posthoc import at_bound


def read_bench_file(path: Path, overrides: list[str] | None, plugins: Sequence[Path] = ()) -> BenchSpec:
    """The bench in a YAML file, with overrides on top, and with plugins beside its own."""
    bench = parse(BenchSpec, load_yaml(path), overrides or ())
    return bench.model_copy(update={"plugins": (*bench.plugins, *map(str, plugins))})


def run_rows(bench: BenchSpec, device: str = "cpu") -> BenchDone | None:
    """Run a bench with a progress bar, one line for each run that was trained or failed; None where it was stopped.

    Raises:
        typer.Exit: a run failed; with status 1, after all others.
    """
    end, done, runs = None, 0, 0
    with resumable("finished runs are kept."), bar("training") as progress:
        for event in run_bench(bench, device=device):
            _print(event)
            if isinstance(event, RunSkipped | RunDone | RunFailed):
                done += 1
            elif isinstance(event, RowStarted):
                runs = event.rows * len(bench.seeds) * len(bench.caches)
                progress.say(f"{event.row}, row {event.number} of {event.rows}")
            elif isinstance(event, RunEpoch):
                progress.say(f"{event.row}, seed {event.seed}, epoch {event.epoch} of {event.epochs}")
            elif isinstance(event, RunFold):
                progress.say(f"{event.row}, seed {event.seed}, fit {event.done} of {event.fits}")
            elif isinstance(event, BenchDone):
                end = event
            if runs:
                progress.move(done, runs)
    if end is not None:
        if end.unreadable:
            note(f"{len(end.unreadable)} records cannot be read and are left out: {', '.join(end.unreadable[:5])}")
        failures = f", {len(end.failed)} failed" if end.failed else ""
        print(f"{bench.name}: {end.trained} runs trained, {end.skipped} found in {bench.store}{failures}")
        if end.failed:
            raise typer.Exit(1)
    return end


def _print(event: BenchEvent) -> None:
    """Print what stays on the terminal."""
    if isinstance(event, CacheOpened):
        print(f"{event.cache}: " + ", ".join(f"{role} {rows}" for role, rows in event.rows.items()))
        for warning in event.warnings:
            note(warning)
    elif isinstance(event, RowStarted):
        for warning in event.warnings:
            note(f"{event.row}: {warning}")
    elif isinstance(event, RunDone):
        print(told(event))
    elif isinstance(event, RunFailed):
        print(f"  {event.row}, seed {event.seed}: FAILED, {event.message}")


def told(event: RunDone) -> str:
    """One line about a finished run, with what should make one look twice."""
    record = event.record
    how = f"epoch {record.epoch}" if record.gradient_norm is None else f"gradient {record.gradient_norm:.1e}"
    odd = {"not_converged": "; DID NOT CONVERGE", "diverged": "; DIVERGED, the best epoch before is kept"}
    bound = "; its temperature lies at the bound of the search" if at_bound(record.temperature) else ""
    took = f"{record.seconds:.1f} s" + (f" for {record.together} heads together" if record.together > 1 else "")
    line = f"  {event.row}, seed {record.seed}: macro F1 {_shown(record.selection_value)}"
    return f"{line} ({how}, {took}{odd.get(record.reason, '')}{bound})"


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def compare_bench(
    bench: BenchSpec,
    baseline: str | None = None,
    role: Literal["select", "test"] = "select",
    only: list[str] | None = None,
) -> list[Comparison]:
    """The comparison of a bench as its file and caches are now, one for each cache; `only` names the rows to take.

    Raises:
        StoreError: a run is not in the store, or runs cannot be compared.
    """
    store, found = Path(bench.store), []
    for part in bench_rows(bench):
        rows = {name: keys for name, keys in part.rows.items() if only is None or name in only}
        require_runs(store, rows, part.cache)
        found.append(compare_rows(store, rows, baseline, role, title=f"{bench.name} on {part.cache}"))
    return found


def save_comparisons(bench: BenchSpec, comparisons: list[Comparison], folder: Path) -> list[Path]:
    """Write each table as CSV and JSON, and one report; returns the paths."""
    written = []
    for number, comparison in enumerate(comparisons):
        stem = "table" if len(comparisons) == 1 else f"table-{number}"
        for ending in (".csv", ".json"):
            save(comparison, folder / f"{stem}{ending}")
            written.append(folder / f"{stem}{ending}")
    return [*written, write_report(comparisons, Path(bench.store), folder / "report.html")]


def export_row(bench: BenchSpec, row: str, out: Path, cache: str | None = None) -> str:
    """Copy the bundle of a row's best seed to a new folder; returns a sentence about it.

    Raises:
        SettingsError: the bench has no such row or cache.
        StoreError: a run of the row is not in the store.
        FileExistsError: the folder exists already.
    """
    store = Path(bench.store)
    parts = {part.cache: part for part in bench_rows(bench)}
    name = cache or (next(iter(parts)) if len(parts) == 1 else "")
    if name not in parts:
        raise SettingsError(f"a cache of this bench is one of {list(parts)}, however: {name!r} came. Give --cache.")
    if row not in parts[name].rows:
        raise SettingsError(f"a row of this bench is one of {list(parts[name].rows)}, however: {row!r} came.")
    require_runs(store, {row: parts[name].rows[row]}, name)
    records = [read_record(store, key) for key in parts[name].rows[row]]
    best = best_of(records)
    unchosen = "" if best.selection_value is not None else " (the first seed, for want of selection rows)"
    if out.exists():
        raise FileExistsError(f"an export is a new folder, however: {out} exists. Choose another name or remove it.")
    shutil.copytree(run_folder(store, best.key) / "head", out)
    return f"{out}: row {row!r}, seed {best.seed}{unchosen}, run {best.key}"


def train_one(
    cache: Path,
    preset: str,
    overrides: list[str],
    seed: int,
    store: str,
    out: Path | None,
    device: str,
    plugins: Sequence[Path] = (),
    split: Sequence[str] = (),
) -> None:
    """Train one run as a bench of one row, print its metrics on the selection rows, and export it if asked."""
    base = read_overrides(overrides)
    tree = {"name": "train", "caches": [str(cache)], "store": store, "preset": preset, "seeds": [seed], "base": base}
    plugged = {"plugins": [str(file) for file in plugins]}
    bench = parse(BenchSpec, tree | plugged | {"split": read_overrides(split)})
    if run_rows(bench, device) is None:
        return
    record = read_record(Path(store), bench_rows(bench)[0].rows[preset][0])
    found = record.evaluations.get("select")
    for name, value in (found.metrics if found is not None else {}).items():
        print(f"  {name:20} {_shown(value)}")
    if out is not None:
        print(export_row(bench, preset, out))
