"""Running and comparing bench rows, and training a single run, from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import typer

from frostbench.app.actions.bench_output import Printer, metrics_line, print_winners
from frostbench.app.progress import bar, note, resumable
from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.comparison.compare import compare as compare_rows
from frostbench.benchmarks.comparison.simple_heads import better_simple_head
from frostbench.benchmarks.comparison.tables import save
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.events import BenchDone, RowStarted, RunDone, RunEpoch, RunFailed, RunFold, RunSkipped
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_record, require_runs
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import load_yaml, parse, read_overrides
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.outputs.places import check_file, check_folder, check_new_folder
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.training.run import RunSpec

TABLE_ENDINGS = (".csv", ".json")
REPORT = "report.html"


def read_bench_file(path: Path, overrides: list[str] | None, plugins: Sequence[Path] = ()) -> BenchSpec:
    """Return the bench of a YAML file with overrides applied and plugins appended to its own."""
    bench = parse(BenchSpec, load_yaml(path), overrides or ())
    return bench.model_copy(update={"plugins": (*bench.plugins, *map(str, plugins))})


def run_rows(bench: BenchSpec, device: str = "cpu", stream: Stream = "auto") -> BenchDone | None:
    """Run a bench with a progress bar and one line per trained or failed run; return None if it was stopped.

    A bench that tunes its rows prints one line per setting and a table of the winners; a failed setting cannot win.

    Raises:
        typer.Exit: with status 1 at the end, if a run failed; in a tuned bench, only if an ensemble failed.
        StoreError: every setting of a tuned row failed.
    """
    end, done, runs = None, 0, 0
    printer = Printer(bench)
    with resumable("finished runs are kept."), bar("training") as progress:
        for event in run_bench(bench, device=device, stream=stream):
            printer.show(event)
            if isinstance(event, RunSkipped | RunDone | RunFailed):
                done += 1
            elif isinstance(event, RowStarted):
                runs = event.rows * len(bench.seeds) * len(bench.caches)
                progress.describe(f"{event.row}, row {event.number} of {event.rows}")
            elif isinstance(event, RunEpoch):
                progress.describe(f"{event.row}, seed {event.seed}, epoch {event.epoch} of {event.epochs}")
            elif isinstance(event, RunFold):
                progress.describe(f"{event.row}, seed {event.seed}, fit {event.done} of {event.fits}")
            elif isinstance(event, BenchDone):
                end = event
            if runs:
                progress.move(done, runs)
    if end is not None:
        if end.unreadable:
            unread = with_noun(len(end.unreadable), "record cannot be read and is", "records cannot be read and are")
            note(f"{unread} left out: {', '.join(end.unreadable[:5])}")
        failures = f", {len(end.failed)} failed" if end.failed else ""
        print(f"{bench.name}: {with_noun(end.trained, 'run')} trained, {end.skipped} found in {bench.store}{failures}")
        if bench.tune:
            print_winners(bench)
        if any(not bench.tune or event.row in bench.ensembles for event in end.failed):
            raise typer.Exit(1)
    return end


def compare_bench(
    bench: BenchSpec,
    baseline: str | None = None,
    role: Literal["select", "test"] = "select",
    only: list[str] | None = None,
) -> list[Comparison]:
    """Compare the stored runs of a bench that match its settings and caches; return one comparison per cache.

    A tuned row is compared with the setting that won. `only` restricts the comparison to the named rows.

    Raises:
        SettingsError: a name in `only` is not a row of the bench.
        StoreError: a run is missing from the store, or runs cannot be compared.
    """
    store, comparisons = Path(bench.store), []
    for part in chosen_rows(bench, only):
        require_runs(store, part.rows, part.cache)
        title = f"{bench.name} on {part.cache}"
        comparisons.append(compare_rows(store, part.rows, baseline, role, title=title, tuned=part.tuned))
    return comparisons


def check_comparisons(bench: BenchSpec, role: str, out: Path | None) -> Path:
    """Return the folder for the tables and the report of comparisons after checking that they can be written.

    Raises:
        OutputError: the folder or a file in it cannot be written.
    """
    folder = out or Path(bench.store) / "compare" / f"{bench.name}-{role}"
    check_folder(folder)
    tables = [path for paths in _table_paths(folder, len(bench.caches)) for path in paths]
    for path in (*tables, folder / REPORT):
        check_file(path, makes_folder=True)
    return folder


def _table_paths(folder: Path, comparisons: int) -> list[list[Path]]:
    """Return the files of each comparison's table; they are numbered if there are several comparisons."""
    stems = ["table"] if comparisons == 1 else [f"table-{number}" for number in range(comparisons)]
    return [[folder / f"{stem}{ending}" for ending in TABLE_ENDINGS] for stem in stems]


def save_comparisons(bench: BenchSpec, comparisons: list[Comparison], folder: Path) -> list[Path]:
    """Write the table of each comparison as CSV and JSON, and one report for all; return the paths."""
    written = []
    for comparison, paths in zip(comparisons, _table_paths(folder, len(comparisons)), strict=True):
        for path in paths:
            save(comparison, path)
        written += paths
    return [*written, write_report(comparisons, Path(bench.store), folder / REPORT)]


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
    stream: Stream = "auto",
    refit: bool | None = None,
    simple: bool | None = None,
) -> None:
    """Train one run as a one-row bench, print its main validation metrics, and export it if `out` is given.

    `refit` says whether to refit the exported head on training and validation rows (None: if possible), and `simple`
    whether to look for a simple head that does better in cross-validation on training rows (None: if that is quick).
    """
    base = read_overrides(overrides, RunSpec)
    tree = {"name": "train", "caches": [str(cache)], "store": store, "preset": preset, "seeds": [seed], "base": base}
    tree |= {"plugins": [str(file) for file in plugins], "split": read_overrides(split, SplitSpec)}
    bench = parse(BenchSpec, tree)
    if out is not None:
        check_new_folder(out)
    if run_rows(bench, device, stream) is None:
        return
    record = read_record(Path(store), bench_rows(bench)[0].rows[preset][0])
    if (line := metrics_line(record)) is not None:
        print(line)
    if simple is not False:
        _report_better_simple_head(bench, record, device, is_requested=bool(simple))
    if out is not None:
        print(export_row(bench, preset, out, refit=refit, device=device))


QUICK_SECONDS = 5.0
"""A run that took longer is compared with simple heads only on request, because that needs five more fits."""


def _report_better_simple_head(bench: BenchSpec, record: RunRecord, device: str, is_requested: bool) -> None:
    """Print which simple head does better than a run, if any, or why they were not compared."""
    if record.seconds > QUICK_SECONDS and not is_requested:
        note("not compared with simple heads, because that takes five more fits; to compare, add --compare-simple")
        return
    try:
        better = better_simple_head(bench, record, device)
    except ValueError as error:
        note(f"not compared with simple heads: {error}")
        return
    if better is not None:
        note(str(better))
    elif is_requested:
        print("no simple head does better in cross-validation on the training rows")
