"""`frostbench cache verify | doctor | info | bad | export | import`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from frostbench.app.commands.common import Device, Weights

app = typer.Typer(help="Check, describe, repair, export and import caches.", no_args_is_help=True)
Cache = Annotated[Path, typer.Argument(help="Folder of the cache.")]


@app.command()
def verify(
    cache: Cache,
    canary: Annotated[
        bool, typer.Option("--canary", help="Also load the backbone and re-embed the canary image.")
    ] = False,
    weights: Weights = None,
    device: Device = "cpu",
) -> None:
    """Check every file of a cache. Compares each with the manifest; exits with status 1 if a check fails."""
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
    repair: Annotated[bool, typer.Option("--repair", help="Make the repairs that are safe, and list them.")] = False,
) -> None:
    """List problems of a cache with their repairs. Exits with status 1 if a problem remains."""
    from frostbench.embedcache.checking.doctor import diagnose, treat

    for repaired in treat(cache) if repair else []:
        print(f"done  {repaired}")
    findings = diagnose(cache)
    for finding in findings:
        print(f"{'note' if finding.harmless else 'FAIL'}  {finding.what}\n      {finding.repair}")
    if not all(finding.harmless for finding in findings):
        raise typer.Exit(1)
    print("ok    no problems found")


@app.command()
def info(cache: Cache) -> None:
    """Describe a cache as JSON. Shows rows, classes, groups, columns and quarantined images."""
    import json

    from frostbench.embedcache.checking.verify import cache_info

    print(json.dumps(cache_info(cache), indent=1, ensure_ascii=False))


@app.command()
def bad(cache: Cache) -> None:
    """List images that could not be embedded. Shows the reason for each."""
    from frostbench.embedcache.names import one_line
    from frostbench.embedcache.storage.state import read_quarantine

    for row in read_quarantine(cache):
        print(f"{one_line(row['id'])}\t{one_line(row['reason'])}")


@app.command("export")
def export_to(
    cache: Cache,
    out: Annotated[Path, typer.Argument(help="Parquet file (--to list) or folder (--to npy) to write.")],
    to: Annotated[
        Literal["list", "npy"],
        typer.Option(help="list: one Parquet file with float lists; npy: a folder of .npy files."),
    ] = "list",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Write a cache in a format that other programs read."""
    from frostbench.embedcache.exchange.interop import export_cache

    for path in export_cache(cache, out, to=to, overwrite=overwrite):
        print(path)


@app.command("import")
def import_from(
    vectors: Annotated[Path, typer.Argument(help=".npy, .pt or .parquet file with one vector per item.")],
    manifest: Annotated[
        Path, typer.Argument(help="CSV or Parquet file with a column label, optionally also id, path, group and split.")
    ],
    cache: Annotated[Path, typer.Option("--cache", help="New folder for the cache.")],
    model: Annotated[str, typer.Option(help="Free-text description of what produced the vectors.")],
    column: Annotated[str, typer.Option(help="Name for the vector column, if the file has none.")] = "features",
) -> None:
    """Create a cache from existing vectors."""
    from frostbench.app.progress import note
    from frostbench.benchmarks.settings.nouns import with_noun
    from frostbench.embedcache.exchange.external import import_vectors

    report = import_vectors(vectors, manifest, cache, model, column)
    for warning in report.warnings:
        note(warning)
    dims = ", ".join(f"{name} [{dim}] {report.storage[name]}" for name, dim in report.dims.items())
    error = max(report.rounding.values())
    print(f"{cache}: {with_noun(report.rows, 'row')}, {dims}; largest rounding error {error:.1e}")
    print(f"unknown recipe fields: {', '.join(report.unknown)}")
