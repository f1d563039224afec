"""`frostbench cache verify | doctor | info | bad | export | import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Weights

app = typer.Typer(help="Check, describe, export and import caches.", no_args_is_help=True)
Cache = Annotated[Path, typer.Argument(help="Folder of the cache.")]


@app.command()
def verify(
    cache: Cache,
    canary: Annotated[bool, typer.Option("--canary", help="Load the backbone and embed the canary anew.")] = False,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Check every file of a cache against its manifest; exit status 1 if a check fails."""
    from functools import partial

    from frostbench.embedcache.backbones.rebuild import rebuild_all, weights_for
    from frostbench.embedcache.checking.verify import verify_cache
    from frostbench.embedcache.extraction.opening import embed_canary
    from frostbench.embedcache.table import read_table

    embed = None
    if canary:
        recipes = read_table(cache, stored=True).recipes
        embed = partial(embed_canary, rebuild_all(recipes, weights=weights_for(recipes, weights), device=device))
    report = verify_cache(cache, embed)
    for check in report.checks:
        print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def doctor(
    cache: Cache,
    repair: Annotated[bool, typer.Option("--repair", help="Do the safe repairs, and say which.")] = False,
) -> None:
    """Name everything that is wrong with a cache, and the repair; exit status 1 if anything is left."""
    from frostbench.embedcache.checking.doctor import diagnose, treat

    for done in treat(cache) if repair else []:
        print(f"done  {done}")
    findings = diagnose(cache)
    for finding in findings:
        print(f"{'note' if finding.harmless else 'FAIL'}  {finding.what}\n      {finding.repair}")
    if not all(finding.harmless for finding in findings):
        raise typer.Exit(1)
    print("ok    the cache is whole")


@app.command()
def info(cache: Cache) -> None:
    """Describe a cache as JSON: rows, classes, groups, columns, quarantine."""
    import json

    from frostbench.embedcache.checking.verify import cache_info

    print(json.dumps(cache_info(cache), indent=1, ensure_ascii=False))


@app.command()
def bad(cache: Cache) -> None:
    """List the images that could not be embedded, with the reason of each."""
    from frostbench.embedcache.names import one_line
    from frostbench.embedcache.storage.state import read_quarantine

    for row in read_quarantine(cache):
        print(f"{one_line(row['id'])}\t{one_line(row['reason'])}")


@app.command("export")
def export_to(
    cache: Cache,
    out: Annotated[Path, typer.Argument(help="Parquet file for list, folder for npy.")],
    to: Annotated[Literal["list", "npy"], typer.Option(help="A Parquet file of float lists, or .npy files.")] = "list",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> None:
    """Write a cache in a form that other programs read."""
    from frostbench.embedcache.exchange.interop import export_cache

    for path in export_cache(cache, out, to=to, overwrite=overwrite):
        print(path)


@app.command("import")
def import_from(
    vectors: Annotated[Path, typer.Argument(help=".npy, .pt or .parquet file of vectors, one row per item.")],
    manifest: Annotated[Path, typer.Argument(help="CSV or Parquet with label and optional id, path, group, split.")],
    cache: Annotated[Path, typer.Option("--cache", help="New folder of the cache.")],
    model: Annotated[str, typer.Option(help="What made the vectors, in your words.")],
    column: Annotated[str, typer.Option(help="Name of the vector column, where the file names none.")] = "features",
) -> None:
    """Make a cache of vectors that exist already."""
    from frostbench.app.progress import note
    from frostbench.embedcache.exchange.external import import_vectors

    report = import_vectors(vectors, manifest, cache, model, column)
    for warning in report.warnings:
        note(warning)
    dims = ", ".join(f"{name} [{dim}] {report.storage[name]}" for name, dim in report.dims.items())
    print(f"{cache}: {report.rows} rows, {dims}; largest rounding error {max(report.rounding.values()):.1e}")
    print(f"unknown in their recipe: {', '.join(report.unknown)}")
