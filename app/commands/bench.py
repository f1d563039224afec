"""`frostbench bench run`, `frostbench compare` and `frostbench export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Labels, Plugins, Refit, Stream

app = typer.Typer(help="List the shipped benches, or train the rows of a bench.", no_args_is_help=True)
BenchFile = Annotated[
    str, typer.Argument(metavar="BENCH", help="YAML file that defines the bench, or the name of a shipped bench.")
]
Caches = Annotated[
    list[str] | None, typer.Option("--cache", help="Cache to use instead of those of the bench. Repeatable.")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE that overrides a key of the file. Repeatable.")
]
Baseline = Annotated[str | None, typer.Option(help="Row to compare the others with. [default: the first row]")]


@app.command("list")
def list_all() -> None:
    """List the benches that come with Frostbench; run one with `frostbench bench run NAME --cache FOLDER`."""
    from frostbench.app.actions.benches import list_benches

    print(list_benches())


@app.command("run")
def run(
    bench: BenchFile,
    caches: Caches = None,
    overrides: Overrides = None,
    labels: Labels = None,
    device: Device = "cpu",
    plugins: Plugins = None,
    stream: Stream = "auto",
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that train runs at the same time and share the cores.")
    ] = 1,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster on which the other workers run, or auto to find a running one; caches and store must be "
            "on a shared disk. [default: this machine]"
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--halving",
            min=2,
            max=5,
            help="Rounds of successive halving, for a bench with one tuned row: each keeps the best third of the "
            "settings and trains it three times as long. [default: train all settings in full]",
            show_default=False,
        ),
    ] = None,
    is_dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Print rows, stacks, memory and estimated time, and store no run."),
    ] = False,
) -> None:
    """Train every run of a bench that is not in its store yet. May run in several processes on one store."""
    from frostbench.app.actions.benches import print_plan, read_bench, run_rows

    spec = read_bench(bench, overrides, plugins or [], caches or [], labels)
    if is_dry:
        print_plan(spec, device, stream, rounds or 0)
    else:
        run_rows(spec, device, stream, workers=workers, ray_address=ray_address, rounds=rounds or 0)


def compare(
    bench: BenchFile,
    caches: Caches = None,
    baseline: Baseline = None,
    role: Annotated[
        str,
        typer.Option(
            "--on", metavar="[validation|test]", help="Compare on validation or test rows; use test only at the end."
        ),
    ] = "validation",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the tables and the report. [default: STORE/compare/NAME-ROLE]"),
    ] = None,
    append: Annotated[
        Path | None,
        typer.Option(help="CSV file to which one line per run is added, with differences from the row `full`."),
    ] = None,
    overrides: Overrides = None,
    labels: Labels = None,
    plugins: Plugins = None,
) -> None:
    """Compare the rows of a bench with a baseline. Prints paired differences with intervals; writes a report."""
    from frostbench.app.actions.benches import read_bench
    from frostbench.app.actions.comparing import (
        append_comparisons,
        check_comparisons,
        compare_bench,
        save_comparisons,
    )
    from frostbench.benchmarks.comparison.tables import to_text
    from frostbench.benchmarks.settings.roles import role_of

    role = role_of(role)
    spec = read_bench(bench, overrides, plugins or [], caches or [], labels)
    folder = check_comparisons(spec, role, out)
    comparisons = compare_bench(spec, baseline, role)
    for comparison in comparisons:
        print(to_text(comparison))
    for path in save_comparisons(spec, comparisons, folder):
        print(path)
    if append is not None:
        print(append_comparisons(spec, comparisons, append))


def export(
    bench: Annotated[
        str, typer.Argument(metavar="BENCH|RUN", help="YAML file or name of a bench, or a run as STORE/RUN.")
    ],
    row: Annotated[str | None, typer.Argument(help="Name of the row or ensemble; none for a run.")] = None,
    *,
    out: Annotated[Path, typer.Option(help="New folder for the bundle.")],
    cache: Annotated[str | None, typer.Option(help="Cache to export from, if the bench has several.")] = None,
    seeds: Annotated[
        Literal["best", "all"],
        typer.Option(help="best: the seed with the best validation result; all: an ensemble of all seeds."),
    ] = "best",
    refit: Refit = None,
    overrides: Overrides = None,
    labels: Labels = None,
    device: Device = "cpu",
    plugins: Plugins = None,
) -> None:
    """Export the head of a bench row or ensemble, or of one run with the decision kept for it on the page."""
    from frostbench.app.actions.benches import read_bench
    from frostbench.app.actions.exporting import export_single
    from frostbench.benchmarks.runs.exporting import export_row

    if row is None:
        others = {
            "--cache": cache,
            "--seeds all": seeds == "all",
            "--refit": refit,
            "--set": overrides,
            "--labels": labels,
        }
        print(export_single(Path(bench), out, [name for name, is_set in others.items() if is_set], plugins or []))
        return
    spec = read_bench(bench, overrides, plugins or [], labels=labels)
    if not spec.caches and cache is not None:
        spec = spec.model_copy(update={"caches": (cache,)})
    print(export_row(spec, row, out, cache, seeds=seeds, refit=refit, device=device))
