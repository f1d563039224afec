"""One-colour images and a backbone whose vector is their colour, for tests of extraction."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from frostbench.embedcache.extraction.events import Event
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Item, Listing, make_listing
from frostbench.embedcache.preprocess import prepare_image
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.folders import list_folder

RECIPE = Recipe(
    provider="external",
    model="colours",
    size=8,
    resize=8,
    crop="squash",
    interpolation="box",
    mean=(0.5, 0.5, 0.5),
    alpha_background=(255, 255, 255),
)
SHARD_ROWS = 5
NOT_AN_IMAGE = b"<html>not found</html>"


@dataclass
class Colours:
    """The scaled mean colour (cls) and its double (patch_mean); counts what it embeds, from 0 the canary too."""

    recipes: dict[str, Recipe] = field(default_factory=lambda: {"cls": RECIPE, "patch_mean": RECIPE})
    dims: dict[str, int] = field(default_factory=lambda: {"cls": 3, "patch_mean": 3})
    tokens: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=lambda: {"device": "none"})
    batch: int = 4
    embedded: int = -1
    scale: float = 1.0

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        return prepare_image(image, RECIPE)

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        self.embedded += len(batch)
        means = batch.float().mean(dim=(2, 3)) * self.scale
        return {"cls": means, "patch_mean": 2 * means}


def paint(path: Path, number: int) -> None:
    """Write the image of a number: its red is the number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (number, 255 - number, 7)).save(path)


def make_images(root: Path, numbers: Iterable[int], bad: frozenset[int] = frozenset()) -> None:
    """Write the images 000.png, 001.png, …; those in `bad` are none."""
    for number in numbers:
        paint(root / f"{number:03d}.png", number)
        if number in bad:
            (root / f"{number:03d}.png").write_bytes(NOT_AN_IMAGE)


def make_folder(root: Path, n: int, bad: frozenset[int] = frozenset()) -> Listing:
    """Write n images of the classes a and b by turns, those in `bad` are none; their listing."""
    for i in range(n):
        make_images(root / "ab"[i % 2], [i], bad)
    return list_folder(root)


def list_images(
    root: Path,
    numbers: Iterable[int],
    label: Callable[[int], str] = lambda number: "ab"[number % 2],
    group: Callable[[int], str] = lambda number: f"g{number // 2}",
) -> Listing:
    """The listing of these images."""
    items = [Item(f"{n:03d}.png", root / f"{n:03d}.png", label(n), group(n)) for n in numbers]
    return make_listing(items, {item.label for item in items}, [], {"kind": "test"}, None)


def run(listing: Listing, cache: Path, backbone: Colours | None = None, **options: object) -> list[Event]:
    """Extract to the end, in shards of five."""
    return list(extract(listing, backbone or Colours(), cache, shard_rows=SHARD_ROWS, **options))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def sha_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
