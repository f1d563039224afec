"""Vectors for the pages defaults.md and five_liners.md: solar cells, images of DATA, digits, two simulated tables."""

import csv
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from frostbench.benchmarks.results.images import SOURCES, Source, cache_of, listing_of
from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.sources.source import list_source
from frostbench.embedcache.table import read_table

BACKBONE = "efficientnet_lite0"
Floats = npt.NDArray[np.float32]


class Table(NamedTuple):
    """Vectors and their classes.

    Attributes:
        x: [N, D] vectors.
        labels: [N] class indices from 0.
        groups: [N] group names, or None if rows are independent.
        is_drawn: whether each draw simulates new rows.
    """

    x: Floats
    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.str_] | None = None
    is_drawn: bool = False


def tables(data: Path | None, work: Path, sources: Sequence[Source] = SOURCES) -> dict[str, Callable[[int], Table]]:
    """Return a function from draw to table for each table name; tables of images are omitted without a data folder."""
    makers: dict[str, Callable[[int], Table]] = {
        "solar cells": _always(partial(_solar, work)),
        "drawn as CLIP's": lambda draw: drawn_as_clip(np.random.default_rng(draw)),
        "digits": _always(_digits),
        "20,000 drawn": lambda draw: drawn(np.random.default_rng(draw + 1)),
    }
    if data is not None:
        makers |= {source.name.replace("_", " "): _always(partial(_images, data, work, source)) for source in sources}
    return makers


def _always(make: Callable[[], Table]) -> Callable[[int], Table]:
    """Return a function that gives the same table for every draw, built once."""
    made = cache(make)
    return lambda draw: made()


def drawn_as_clip(draw: np.random.Generator, rows: int = 4000, dim: int = 512, classes: int = 30) -> Table:
    """Draw unit vectors about a common direction; classes differ by a few degrees in 60 dimensions, imbalance 20:1."""
    labels = _long_tail(draw, rows, classes, 20)
    plane = draw.normal(size=(60, dim)) / np.sqrt(dim)
    means = 0.5 * draw.normal(size=(classes, 60)) @ plane
    common = 3 * draw.normal(size=dim) / np.sqrt(dim)
    spectrum = np.arange(1, dim + 1) ** -0.25
    noise = draw.normal(size=(rows, dim)) * spectrum / np.linalg.norm(spectrum)
    x = common + means[labels] / np.sqrt(10) + noise + 0.3 * draw.normal(size=(rows, 60)) @ plane
    return Table((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32), labels, is_drawn=True)


def drawn(draw: np.random.Generator, rows: int = 20_000, dim: int = 384, classes: int = 20) -> Table:
    """Draw Gaussian classes that share a covariance with a decaying spectrum, imbalance 30:1."""
    labels = _long_tail(draw, rows, classes, 30)
    spectrum = np.arange(1, dim + 1) ** -0.3
    means = 0.18 * draw.normal(size=(classes, dim))
    x = means[labels] + draw.normal(size=(rows, dim)) * spectrum * np.sqrt(dim) / np.linalg.norm(spectrum)
    return Table(x.astype(np.float32), labels, is_drawn=True)


def _long_tail(draw: np.random.Generator, rows: int, classes: int, ratio: float) -> npt.NDArray[np.int64]:
    shares = ratio ** -np.linspace(0, 1, classes)
    return draw.choice(classes, size=rows, p=shares / shares.sum()).astype(np.int64)


def _digits() -> Table:
    x, labels = load_digits(return_X_y=True)
    return Table(x.astype(np.float32), labels.astype(np.int64))


def _solar(work: Path) -> Table:
    """Return vectors of the images of the package elpv-dataset, labelled by cell type and defect probability.

    Raises:
        ValueError: the package is not installed.
    """
    package = find_spec("elpv_dataset")
    if package is None or package.origin is None:
        raise ValueError(
            "The solar cells need the package elpv-dataset, which is not installed. Run `pip install "
            "'frostbench[demo]'`, or choose other tables with `--part`."
        )
    folder, manifest = Path(package.origin).parent / "data", work / "solar_cells.csv"
    lines = [line.split() for line in (folder / "labels.csv").read_text(encoding="utf-8").splitlines() if line.strip()]
    work.mkdir(parents=True, exist_ok=True)
    with manifest.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [("path", "label"), *((path, f"{kind} {100 * float(share):.0f} %") for path, share, kind in lines)]
        )
    return _embedded(list_source(manifest, root=folder), work / "solar-lite0")


def _images(data: Path, work: Path, source: Source) -> Table:
    return _embedded(listing_of(data, work, source), cache_of(work, source, BACKBONE))


def _embedded(listing: Listing, cache: Path) -> Table:
    list(extract(listing, load_backbone("bundled", BACKBONE), cache))
    table = read_table(cache)
    groups = np.asarray(table.groups, dtype=np.str_) if table.has_groups else None
    return Table(next(iter(table.columns.values())).astype(np.float32), table.labels.astype(np.int64), groups)
