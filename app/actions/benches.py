"""Running bench rows, and training a single run, from the command line."""

from collections.abc import Sequence
from pathlib import Path

import typer

from frostbench.app.actions.bench_output import Printer, metrics_line, print_winners, round_title
from frostbench.app.actions.plan_output import duration, format_plan
from frostbench.app.progress import bar, note, resumable
from frostbench.benchmarks.auto.choose import preset_to_start_from, with_choice
from frostbench.benchmarks.auto.simple_heads import better_simple_head
from frostbench.benchmarks.runs.dry_run import plan_bench
from frostbench.benchmarks.runs.events import (
    BenchDone,
    RoundStarted,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunFold,
    RunSkipped,
)
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.halving import planned_rounds, run_halving
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.runs.workers import workers_beside
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import (
    AUTO,
    SettingsError,
    bench_names,
    bench_title,
    load_yaml,
    packaged_bench,
    parse,
    read_overrides,
)
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.training.run import RunSpec


def read_bench(
    name: str,
    overrides: list[str] | None,
    plugins: Sequence[Path] = (),
    caches: Sequence[str] = (),
    labels: Path | None = None,
) -> BenchSpec:
    """Return the bench of a YAML file, or a shipped bench, with overrides applied and plugins appended to its own.

    Args:
        name: path of the file; a name without suffix or folder that is not a file is that of a shipped bench.
        overrides: KEY=VALUE texts.
        plugins: files to append to the bench's plugins.
        caches: folders that replace the bench's caches; empty keeps those.
        labels: file of label corrections that replaces the bench's; None keeps that.

    Raises:
        SettingsError: the file cannot be read, no shipped bench has the name, or an option is unknown or not allowed.
    """
    path = Path(name)
    is_shipped = path.name == name and not path.suffix and not path.is_file()
    tree = packaged_bench(name) if is_shipped else load_yaml(path)
    more = [] if labels is None else [f"labels.file={labels}"]
    bench = parse(BenchSpec, tree | ({"caches": list(caches)} if caches else {}), [*(overrides or ()), *more])
    return bench.model_copy(update={"plugins": (*bench.plugins, *map(str, plugins))})


def list_benches() -> str:
    """Return a table of the shipped benches: name, number of runs per cache, and what each compares."""
    lines = []
    for name in bench_names():
        bench = parse(BenchSpec, packaged_bench(name))
        rows = expand(bench)
        lines.append([name, str(len({row.row for row in rows})), str(len(rows) * len(bench.seeds)), bench_title(name)])
    width = max(len(line[0]) for line in lines)
    head = f"{'bench'.ljust(width)}  rows  runs  what it compares"
    return "\n".join([head, *(f"{n.ljust(width)}  {rows:>4}  {runs:>4}  {title}" for n, rows, runs, title in lines)])


def print_plan(bench: BenchSpec, device: str = "cpu", stream: Stream = "auto", rounds: int = 0) -> None:
    """Print what a bench would do: rows, stacks, memory and an estimate of the time for each of its caches.

    With `rounds` of successive halving, each round is printed; settings of later rounds are stand-ins.
    """
    seconds, count = 0.0, 0
    for part in planned_rounds(bench, rounds) if rounds else ():
        print(round_title(part))
        for plan in plan_bench(part.bench, device, stream):
            print(format_plan(plan))
            seconds, count = seconds + plan.seconds, count + 1
    for plan in () if rounds else plan_bench(bench, device, stream):
        print(format_plan(plan))
        seconds, count = seconds + plan.seconds, count + 1
    if count > 1:
        print(f"\nall {'rounds' if rounds else 'caches'}: at most about {duration(seconds)}")


def run_rows(
    bench: BenchSpec,
    device: str = "cpu",
    stream: Stream = "auto",
    *,
    workers: int = 1,
    ray_address: str | None = None,
    rounds: int = 0,
) -> BenchDone | None:
    """Run a bench with a progress bar and one line per trained or failed run; return None if it was stopped.

    A bench that tunes its rows prints one line per setting and a table of the winners; a failed setting cannot win.
    `rounds` is the number of rounds of successive halving, 0 to train all settings in full.

    Raises:
        SettingsError: successive halving is not possible.
        typer.Exit: with status 1 at the end, if a run failed; in a tuned bench, only if an ensemble failed.
        StoreError: every setting of a tuned row failed.
    """
    end = None
    if rounds and (workers > 1 or ray_address is not None):
        raise SettingsError("Successive halving runs in one process. Leave out --workers and --ray-address.")
    with resumable("finished runs are kept."), workers_beside(bench, workers, device, stream, ray_address) as others:
        end = _run_here(bench, device, stream, rounds)
        for problem in others.problems():
            note(f"{problem}. Its runs were trained by the other workers.")
    if end is not None:
        if end.unreadable:
            unread = with_noun(len(end.unreadable), "record cannot be read and is", "records cannot be read and are")
            note(f"{unread} left out: {', '.join(end.unreadable[:5])}")
        failures = f", {len(end.failed)} failed" if end.failed else ""
        print(f"{bench.name}: {with_noun(end.trained, 'run')} trained, {end.skipped} found in {bench.store}{failures}")
        if bench.tune:
            print_winners(bench, rounds)
        if any(not bench.tune or event.row in bench.ensembles for event in end.failed):
            raise typer.Exit(1)
    return end


def _run_here(bench: BenchSpec, device: str, stream: Stream, rounds: int) -> BenchDone | None:
    """Run a bench in this process and print its events; return None if it was stopped."""
    end, done, runs = None, 0, 0
    printer = Printer(bench)
    halving = run_halving(bench, rounds, device=device, stream=stream) if rounds else None
    with bar("training") as progress:
        for event in halving or run_bench(bench, device=device, stream=stream):
            if isinstance(event, RoundStarted):
                printer, done = Printer(bench), 0
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
    return end


def train_one(
    cache: Path,
    preset: str | None,
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
    labels: Path | None = None,
) -> None:
    """Train one run as a one-row bench, print its main validation metrics, and export it if `out` is given.

    `refit` says whether to refit the exported head on training and validation rows (None: if possible), and `simple`
    whether to look for a simple head that does better in cross-validation on training rows (None: if that is quick, and
    preset auto has not done so already).
    """
    base = read_overrides(overrides, RunSpec)
    start = preset_to_start_from(preset, base)
    tree = {"name": "train", "caches": [str(cache)], "store": store, "preset": start, "seeds": [seed], "base": base}
    tree |= {"plugins": [str(file) for file in plugins], "split": read_overrides(split, SplitSpec)}
    tree["labels"] = {} if labels is None else {"file": str(labels)}
    bench = parse(BenchSpec, tree)
    if out is not None:
        check_new_folder(out)
    if start == AUTO:
        bench = _with_choice(bench, device, stream)
    if run_rows(bench, device, stream) is None:
        return
    record = read_record(Path(store), bench_rows(bench)[0].rows[bench.preset][0])
    if (line := metrics_line(record)) is not None:
        print(line)
    if simple or (simple is None and start != AUTO):
        _report_better_simple_head(bench, record, device, is_requested=bool(simple))
    if out is not None:
        print(export_row(bench, bench.preset, out, refit=refit, device=device))


def _with_choice(bench: BenchSpec, device: str, stream: Stream) -> BenchSpec:
    """Return the bench with the configuration that preset auto chooses, and print what was tried and why it won."""
    with resumable("no configuration was chosen yet."), bar("choosing a configuration") as progress:
        chosen, choice = with_choice(bench, device, progress.move, stream)
    print(choice)
    return chosen


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
