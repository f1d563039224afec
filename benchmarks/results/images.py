"""Images of the results pages, and their caches."""

import csv
import random
import shutil
import tarfile
from collections.abc import Iterator
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
    """Labelled images.

    Attributes:
        name: of the folder, and of the tar without its ending.
        groups: how many groups to take, drawn at random (seed 0) from all in order; None takes all.
    """

    name: str
    groups: int | None = None


SOURCES = (Source("coins"), Source("blood_cells", 150), Source("grocery"))
BACKBONES = ("efficientnet_lite0", "efficientnet_lite2")
"""Both from PyPI packages, so that nothing is downloaded from a hub."""


def cache_of(work: Path, source: Source, backbone: str) -> Path:
    """The folder of the cache of a source by a backbone."""
    return work / f"{source.name}-{backbone.removeprefix('efficientnet_')}"


def embedded(data: Path, work: Path) -> Iterator[str]:
    """Unpack and embed what is missing; a line for each cache.

    Raises:
        ValueError: a source is not there.
    """
    for source in SOURCES:
        listing = listing_of(data, work, source)
        for backbone in BACKBONES:
            cache = cache_of(work, source, backbone)
            ends = [e for e in extract(listing, load_backbone("bundled", backbone), cache) if isinstance(e, Finished)]
            yield f"{cache}: {ends[-1].n_ok} images, {ends[-1].n_bad} left out"


def listing_of(data: Path, work: Path, source: Source) -> Listing:
    """The images of a source that are taken.

    Raises:
        ValueError: the source is not there.
    """
    return list_source(_manifest(data, work, source), root=_folder(data, work, source))


def _folder(data: Path, work: Path, source: Source) -> Path:
    """The folder of a source's images, unpacked where only its tar is there."""
    for folder in (data / source.name, work / "images" / source.name):
        if (folder / "manifest.csv").is_file():
            return folder
    packed = data / f"{source.name}.tar"
    if not packed.is_file():
        raise ValueError(
            f"the images of {source.name} are a folder with manifest.csv, or a tar of it, however: neither is in "
            f"{data}. Name the folder that holds it."
        )
    # Unpacked beside its place and then renamed: an unpacking that was cut off is begun anew.
    partial = work / "images" / f"{source.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(packed) as tar:
        tar.extractall(partial, filter="data")
    (partial / source.name).replace(work / "images" / source.name)
    partial.rmdir()
    return work / "images" / source.name


def _manifest(data: Path, work: Path, source: Source) -> Path:
    """The manifest of the images that are taken."""
    whole = _folder(data, work, source) / "manifest.csv"
    if source.groups is None:
        return whole
    with whole.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    drawn = set(random.Random(0).sample(sorted({row["group"] for row in rows}), source.groups))
    part = work / f"{source.name}-{source.groups}.csv"
    with new_file(part) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row for row in rows if row["group"] in drawn)
    return part
