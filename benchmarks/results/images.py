"""Images of the results pages, and their caches."""

import csv
import random
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.extraction.events import Finished
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.outputs.writing import new_file
from frostbench.embedcache.sources.source import list_source


@dataclass(frozen=True)
class Source:
    """Labelled images in the folder `name`: `groups` of their groups, drawn at random (seed 0), or all if None.

    Caches are called after `called`, by default the name.
    """

    name: str
    groups: int | None = None
    called: str = ""


SOURCES = (Source("coins"), Source("blood_cells", 150), Source("grocery"))
BACKBONES = ("efficientnet_lite0", "efficientnet_lite2")
"""Both come from PyPI packages, so nothing is downloaded from a model hub."""


def cache_of(work: Path, source: Source, backbone: str) -> Path:
    """Return the cache folder of a source and backbone."""
    return work / f"{source.called or source.name}-{backbone.removeprefix('efficientnet_')}"


def embedded(
    data: Path, work: Path, sources: Sequence[Source] = SOURCES, backbones: Sequence[str] = BACKBONES
) -> Iterator[str]:
    """Unpack and embed the images that are missing, and yield a line per cache.

    Raises:
        ValueError: a source is missing.
    """
    for source in sources:
        listing = listing_of(data, work, source)
        for backbone in backbones:
            cache = cache_of(work, source, backbone)
            ends = [e for e in extract(listing, load_backbone("bundled", backbone), cache) if isinstance(e, Finished)]
            yield f"{cache}: {ends[-1].n_ok} images, {ends[-1].n_bad} skipped"


def listing_of(data: Path, work: Path, source: Source) -> Listing:
    """Return the listing of the images to use from a source.

    Raises:
        ValueError: the source is missing.
    """
    return list_source(_manifest(data, work, source), root=_folder(data, work, source))


def _folder(data: Path, work: Path, source: Source) -> Path:
    """Return the folder of a source's images, after unpacking its tar if necessary."""
    for folder in (data / source.name, work / "images" / source.name):
        if (folder / "manifest.csv").is_file():
            return folder
    packed = data / f"{source.name}.tar"
    if not packed.is_file():
        raise ValueError(
            f"The images of {source.name} must be a folder with manifest.csv or a tar of it, but {data} contains "
            "neither. Pass the folder that contains one of them."
        )
    # Unpack into a temporary folder and rename it, so that an interrupted unpacking starts over.
    partial = work / "images" / f"{source.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(packed) as tar:
        tar.extractall(partial, filter="data")
    (partial / source.name).replace(work / "images" / source.name)
    partial.rmdir()
    return work / "images" / source.name


def _manifest(data: Path, work: Path, source: Source) -> Path:
    manifest = _folder(data, work, source) / "manifest.csv"
    if source.groups is None:
        return manifest
    with manifest.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    drawn = set(random.Random(0).sample(sorted({row["group"] for row in rows}), source.groups))
    part = work / f"{source.name}-{source.groups}.csv"
    with new_file(part) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row for row in rows if row["group"] in drawn)
    return part
