"""`frostbench bench run`, `frostbench compare` and `frostbench export`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Plugins, Refit, Stream

app = typer.Typer(help="Train the rows of a bench.", no_args_is_help=True)
BenchFile = Annotated[Path, typer.Argument(help="YAML file that defines the bench.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE that overrides a key of the file. Repeatable.")
]
Baseline = Annotated[str | None, typer.Option(help="Row to compare the others with. [default: the first row]")]


# Without the callback, typer would merge the only subcommand, `bench run`, into `bench`.
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
    """Train every run of a bench that is not in its store yet."""
    from frostbench.app.actions.benches import read_bench_file, run_rows

    run_rows(read_bench_file(bench, overrides, plugins or []), device, stream)


def compare(
    bench: BenchFile,
    baseline: Baseline = None,
    role: Annotated[
        str,
        typer.Option(
            "--on", metavar="[validation|test]", help="Compare on validation or test rows; use test only at the end."
        ),
    ] = "validation",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the table and the report. [default: STORE/compare/NAME-ROLE]"),
    ] = None,
    overrides: Overrides = None,
    plugins: Plugins = None,
) -> None:
    """Compare the rows of a bench with a baseline. Prints paired differences with intervals and writes a report."""
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
    row: Annotated[str, typer.Argument(help="Name of the row or ensemble.")],
    out: Annotated[Path, typer.Option(help="New folder for the bundle.")],
    cache: Annotated[str | None, typer.Option(help="Cache to export from, if the bench has several.")] = None,
    seeds: Annotated[
        Literal["best", "all"],
        typer.Option(help="best: the seed with the best validation result; all: an ensemble of all seeds."),
    ] = "best",
    refit: Refit = None,
    overrides: Overrides = None,
    device: Device = "cpu",
    plugins: Plugins = None,
) -> None:
    """Export the head of a bench row or ensemble."""
    from frostbench.app.actions.benches import read_bench_file
    from frostbench.benchmarks.runs.exporting import export_row

    spec = read_bench_file(bench, overrides, plugins or [])
    print(export_row(spec, row, out, cache, seeds=seeds, refit=refit, device=device))
