"""The memory that extraction takes at its peak, for few images and for many.

Each listing is embedded in a process of its own. Its items all name one small file; in the place of what decodes from
it comes a picture of 500 × 375 pixels, and a stub stands for the backbone, so that 100,000 images take a minute or less
and a picture, prepared image or vector that is kept would show. What the listing itself takes, and whoever asks for an
extraction holds, is taken off and told in the unit.
"""

import multiprocessing
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import psutil
import torch
from PIL import Image

from frostbench.benchmarks.speed.harness import Figure, figure
from frostbench.embedcache.extraction.backbone_group import BackboneGroup
from frostbench.embedcache.extraction.events import BatchDone
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Item, make_listing
from frostbench.embedcache.recipe import Recipe

FEW, MANY, MANY_QUICK = 1_000, 100_000, 10_000
DIM, SIDE, SHARD_ROWS = 384, 64, 512
GOAL = 1 / 1.15
"""The peak may grow by 15 percent."""
MEGABYTE = 2**20


def figures(quick: bool) -> Iterator[Figure]:
    """The one figure; `quick` embeds fewer of the many."""
    many = MANY_QUICK if quick else MANY
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        one, another = measured(Path(folder), FEW), measured(Path(folder), many)
    unit = (
        f"peak MB for {FEW} images / for {many}, less {one.listing:.1f} and {another.listing:.1f} MB of listing; "
        f"extraction grew the process by {one.grown:.0f} and {another.grown:.0f} MB"
    )
    ratio = one.without_listing / another.without_listing
    pair = (another.without_listing, one.without_listing)
    yield figure("memory.flat", [pair], [ratio], goal=GOAL, unit=unit)


@dataclass(frozen=True)
class Memory:
    """What a process held, in MB.

    Attributes:
        start: before it listed anything.
        listing: what listing added.
        peak: the most while it extracted.
    """

    start: float
    listing: float
    peak: float

    @property
    def without_listing(self) -> float:
        """The peak less the listing."""
        return self.peak - self.listing

    @property
    def grown(self) -> float:
        """What extraction added at its peak."""
        return self.peak - self.start - self.listing


def measured(folder: Path, count: int) -> Memory:
    """The memory of a process that embeds so many images."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(memory_of, folder, count).result()


def memory_of(folder: Path, count: int) -> Memory:
    """Embed so many images in this process, and look at its memory after each batch."""
    path = folder / "small.png"
    Image.fromarray(np.full((8, 8, 3), 127, np.uint8)).save(path)
    start = held()
    items = [Item(f"{i:08d}.png", path, f"{i % 10}", f"{i}") for i in range(count)]
    listing = make_listing(items, [str(i) for i in range(10)], [], {"kind": "made up"}, None)
    del items
    listed = held() - start
    peak = start
    backbone = BackboneGroup({"": Stub()}, Enlarged())
    for event in extract(listing, backbone, folder / f"cache-{count}", shard_rows=SHARD_ROWS):
        if isinstance(event, BatchDone):
            peak = max(peak, held())
    return Memory(start, listed, max(peak, held()))


def held() -> float:
    """The resident memory of this process in MB."""
    return float(psutil.Process().memory_info().rss) / MEGABYTE


class Enlarged:
    """Gives a photograph's worth of pixels for whatever was decoded."""

    text = "enlarged"

    def check(self, name: str, sha256: bytes) -> None:
        """Any file will do."""

    def __call__(self, name: str, image: np.ndarray) -> np.ndarray:
        """uint8 [375, 500, 3], every page of it written."""
        return np.full((375, 500, 3), image[0, 0, 0], np.uint8)


class Stub:
    """An embedder without a network."""

    recipes: Mapping[str, Recipe] = MappingProxyType(
        {"x": Recipe(provider="external", model="stub", alpha_background=(255, 255, 255))}
    )
    dims: Mapping[str, int] = MappingProxyType({"x": DIM})
    tokens: Mapping[str, int] = MappingProxyType({})
    provenance: Mapping[str, str] = MappingProxyType({})
    batch = 64

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        """A corner, uint8 [3, 64, 64]."""
        return torch.from_numpy(image[:SIDE, :SIDE].copy()).permute(2, 0, 1)

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """One number for each image, float32 [B, D]."""
        return {"x": batch[:, 0, 0, :1].float().expand(len(batch), DIM).contiguous()}
