"""`frostbench bench run`, `frostbench compare` and `frostbench export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Plugins, Refit, Stream

app = typer.Typer(help="Train the rows of a bench.", no_args_is_help=True)
BenchFile = Annotated[Path, typer.Argument(help="YAML file of a bench.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE over the file's keys; repeat.")]


# Without a second command typer would fold `bench run` into `bench`; the callback keeps the word.
@app.callback()
def bench() -> None:
    """Train the rows of a bench."""


@app.command("run")
def run(
    bench: BenchFile,
    overrides: Overrides = None,
    device: Device = "cpu",
    plugins: Plugins = None,
    stream: Stream = "auto",
) -> None:
    """Train every run of a bench that its store lacks."""
    from frostbench.app.actions.benches import read_bench_file, run_rows

    run_rows(read_bench_file(bench, overrides, plugins or []), device, stream)


def compare(
    bench: BenchFile,
    baseline: Annotated[str | None, typer.Option(help="Row to compare with; the first if left out.")] = None,
    role: Annotated[
        str, typer.Option("--on", metavar="[validation|test]", help="Rows to compare on; test only at the end.")
    ] = "validation",
    out: Annotated[
        Path | None, typer.Option(help="Folder of table and report; STORE/compare/NAME-ROLE if left out.")
    ] = None,
    overrides: Overrides = None,
    plugins: Plugins = None,
) -> None:
    """Compare the rows of a bench with a baseline: paired differences with intervals, and an HTML report."""
    from frostbench.app.actions.benches import check_comparisons, compare_bench, read_bench_file, save_comparisons
    from frostbench.benchmarks.comparison.tables import to_text
    from frostbench.benchmarks.settings.roles import role_of

    role = role_of(role)
    spec = read_bench_file(bench, overrides, plugins or [])
    folder = check_comparisons(spec, role, out)
    comparisons = compare_bench(spec, baseline, role)
    for comparison in comparisons:
        print(to_text(comparison))
    for path in save_comparisons(spec, comparisons, folder):
        print(path)


def export(
    bench: BenchFile,
    row: Annotated[str, typer.Argument(help="Name of the row.")],
    out: Annotated[Path, typer.Option(help="New folder of the bundle.")],
    cache: Annotated[str | None, typer.Option(help="Which cache, where the bench has several.")] = None,
    seeds: Annotated[
        Literal["best", "all"],
        typer.Option(help="The seed that is best on the selection rows, or all: an ensemble of their heads."),
    ] = "best",
    refit: Refit = None,
    overrides: Overrides = None,
    device: Device = "cpu",
    plugins: Plugins = None,
) -> None:
    """Export the head of a row or an ensemble, of the seed that is best on the selection rows or of all seeds."""
    from frostbench.app.actions.benches import read_bench_file
    from frostbench.benchmarks.runs.exporting import export_row

    spec = read_bench_file(bench, overrides, plugins or [])
    print(export_row(spec, row, out, cache, seeds=seeds, refit=refit, device=device))
