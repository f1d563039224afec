"""`frostbench train`."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.bench import export_row, run_rows
from benchmarks.plan import BenchSpec
from benchmarks.settings import parse, split_override
from benchmarks.store import read_bench, read_record


def train(
    cache: Annotated[Path, typer.Argument(help="Folder of the cache.")],
    preset: Annotated[str, typer.Option(help="plain, baseline or full.")] = "baseline",
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="OPTION=VALUE over the preset, see `frostbench options`; repeat.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds initialisation, batch order and dropout.")] = 0,
    store: Annotated[str, typer.Option(help="Folder in which finished runs are kept.")] = "results",
    out: Annotated[Path | None, typer.Option(help="New folder for the head's bundle.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
) -> None:
    """Train one head on a cache and say how it does on the selection rows."""
    base = dict(split_override(item) for item in overrides or ())
    tree = {"name": "train", "caches": [str(cache)], "store": store, "preset": preset, "seeds": [seed], "base": base}
    bench = parse(BenchSpec, tree)
    if run_rows(bench, device) is None:
        return
    record = read_record(Path(store), read_bench(Path(store), bench.name)[0].rows[preset][0])
    for name, value in record.evaluations["select"].metrics.items():
        print(f"  {name:20} {'none' if value is None else f'{value:.4f}'}")
    if out is not None:
        print(export_row(bench, preset, out))
