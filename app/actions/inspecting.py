"""Printing the analyses of `frostbench inspect` and writing them to files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from frostbench.app.frames import TABLES, check_out, print_frame, write_frame
from frostbench.app.progress import note
from frostbench.benchmarks.report.map_chart import map_svg, write_map_page
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import parse
from frostbench.embedcache import index
from frostbench.embedcache.index.maps import MapMethod
from frostbench.embedcache.index.pairs import MARGIN
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs.writing import write_text
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_table

DRAWINGS = (".html", ".svg")


def print_neighbours(
    cache: Path,
    ids: Sequence[str],
    images: Sequence[Path],
    k: int,
    column: str | None,
    method: Method,
    weights: Path | None,
    device: str,
    out: Path | None,
) -> None:
    """Print the neighbours of rows or image files, or write those of all rows to a file.

    Raises:
        ValueError: both rows and images are given, or none of rows, images and output file.
    """
    check_out(out, TABLES)
    if (ids and images) or not (ids or images or out):
        raise ValueError(
            f"Give either --id or --image, or only --out for all rows; got {with_noun(len(ids), 'row')}, "
            f"{with_noun(len(images), 'image')} and {'no' if out is None else 'an'} output file."
        )
    table = read_table(cache, stored=True)
    if images:
        found = index.image_neighbours(table, images, k, column=column, weights=weights, device=device, method=method)
    else:
        found = index.neighbours(table, k, ids=ids or None, column=column, method=method)
    _notes(found.warnings)
    if ids or images:
        for name, rows in found.rows.groupby("id", sort=False):
            print(one_line(f"{name}{_labelled(rows['label'].iloc[0])}"))
            print_frame(rows[["rank", "cosine", "neighbour_label", "neighbour"]], k)
    write_frame(found.rows, out)


def print_duplicates(cache: Path, threshold: float, column: str | None, method: Method, out: Path | None) -> None:
    """Print the groups of identical and near-duplicate images."""
    check_out(out, TABLES)
    found = index.duplicates(read_table(cache, stored=True), threshold, column=column, method=method)
    kinds = found.groups["kind"].value_counts()
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("identical", "near", "both") if kind in kinds) or "none"
    rows = f"{len(found.rows)} of {with_noun(len(found.group), 'row')}"
    print(f"{with_noun(len(found.groups), 'group')} with {rows} ({counts}), by {found.column}")
    print(
        f"{with_noun(found.pairs, 'pair')} of different files at cosine ≥ {threshold:g}, {found.near_above} of them "
        f"less than {MARGIN:g} above it; {with_noun(found.near_below, 'pair lies', 'pairs lie')} less than {MARGIN:g} "
        "below it"
    )
    print_frame(found.groups[["group", "rows", "contents", "kind", "widest", "chain", "classes", "first"]], 20)
    _notes(found.warnings)
    write_frame(found.rows.merge(found.groups[["group", "kind", "widest", "chain"]], on="group"), out)


def print_leaks(
    cache: Path, threshold: float, split: Sequence[str], column: str | None, method: Method, out: Path | None
) -> None:
    """Print held-out rows with a duplicate in training, and duplicates with different labels."""
    conflicts = out and out.with_stem(f"{out.stem}-conflicts")
    for path in (out, conflicts):
        check_out(path, TABLES)
    table = read_table(cache, stored=True)
    found = index.leaks(table, _roles(cache, table, split), threshold, column=column, method=method)
    summary = found.summary.assign(share=[f"{share:.2%}" for share in found.summary["share"]])
    print(f"held-out rows with a duplicate in training (cosine ≥ {threshold:g}), by {found.column}")
    print_frame(summary, len(summary))
    if len(found.rows):
        print_frame(found.rows[["role", "kind", "cosine", "label", "train_label", "id", "train_id"]], 20)
    if len(found.conflicts):
        print("duplicates with different labels")
        print_frame(found.conflicts[["kind", "cosine", "label", "other_label", "id", "other_id"]], 20)
    _notes(found.warnings)
    write_frame(found.rows, out)
    if len(found.conflicts):
        write_frame(found.conflicts, conflicts)


def print_suspects(
    cache: Path, k: int, folds: int, seed: int, column: str | None, method: Method, out: Path | None
) -> None:
    """Print the likely label errors."""
    check_out(out, TABLES)
    table = read_table(cache, stored=True)
    found = index.suspects(table, column=column, k=k, folds=folds, seed=seed, method=method)
    wrong = found.rows[found.rows["suspect"]]
    verb = "is" if len(wrong) == 1 else "are"
    print(f"{len(wrong)} of {with_noun(len(found.rows), 'label')} {verb} suspect, by {found.column}")
    print_frame(wrong[["label", "suggested", "self_confidence", "margin", "agreement", "id"]], 20)
    if len(found.confusions):
        print("most confused classes")
        print_frame(found.confusions, 10)
    _notes(found.warnings)
    write_frame(found.rows, out)


def print_balance(cache: Path, split: Sequence[str], least: int, out: Path | None) -> None:
    """Print the rows of each class by role; if no split is possible, note that and omit the roles."""
    check_out(out, TABLES)
    table = read_table(cache, stored=True)
    try:
        roles = _roles(cache, table, split)
    except CacheError as error:
        note(f"roles are not counted: {error}")
        roles = None
    found = index.balance(table, roles, least)
    shots = found.classes["shots"].value_counts()
    counts = ", ".join(f"{shots[name]} {name}" for name in ("many", "medium", "few", "none") if name in shots)
    basis = "all" if roles is None else "training"
    sizes = f"{with_noun(len(table.ids), 'row')}, {with_noun(len(found.classes), 'class')}"
    print(f"{sizes} ({counts} by {basis} rows)")
    print(f"imbalance ratio {found.imbalance_ratio:.1f}, effective number of classes {found.effective_classes:.1f}")
    print_frame(found.classes.sort_values("rows", ascending=False), 30)
    _notes(found.warnings)
    write_frame(found.classes, out)


def make_map(cache: Path, method: MapMethod, column: str | None, seed: int, out: Path | None) -> None:
    """Load the map from the cache or compute it, and draw or write it."""
    check_out(out, (*TABLES, *DRAWINGS))
    table = read_table(cache, stored=True)
    points = index.load_or_make_map(cache, table, method, column=column, seed=seed)
    title = f"{cache.resolve().name}: {with_noun(len(points), 'image')} by {'PCA' if method == 'pca' else 'UMAP'}"
    if out is None:
        path = index.map_path(cache, table, method, column=column, seed=seed)
        stored = f"stored in {cache / 'maps'}" if path.is_file() else "not stored, because the cache is read-only"
        print(f"{title}, {stored}; --out map.html draws it")
    elif out.suffix.lower() == ".html":
        print(write_map_page(points, title, out))
    elif out.suffix.lower() == ".svg":
        write_text(out, map_svg(points, title))
        print(out)
    else:
        write_frame(points, out)


def _roles(cache: Path, table: FeatureTable, split: Sequence[str]) -> np.ndarray:
    made = load_or_make_split(cache, table, parse(SplitSpec, {}, split))
    _notes(made.report.warnings)
    return made.roles


def _labelled(label: str) -> str:
    return f" ({label})" if label else ""


def _notes(warnings: Sequence[str]) -> None:
    for warning in warnings:
        note(warning)
