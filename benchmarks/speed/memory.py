"""Peak memory of extraction, for few images and for many.

Each listing is embedded in its own process. All items name one small file; decoding is replaced by an image of 500 ×
375 pixels and the backbone by a stub, so that 100,000 images take about a minute and any retained image, prepared image
or vector shows. The memory of the listing itself, which every caller needs, is subtracted and stated in the unit.
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
"""The peak may grow by 15 %."""
MEGABYTE = 2**20


def figures(quick: bool) -> Iterator[Figure]:
    """Yield the figure; `quick` embeds fewer images."""
    many = MANY_QUICK if quick else MANY
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        one, another = measured(Path(folder), FEW), measured(Path(folder), many)
    unit = (
        f"peak MiB for {FEW} images / for {many}, less {one.listing:.1f} and {another.listing:.1f} MiB of listing; "
        f"extraction grew the process by {one.grown:.0f} and {another.grown:.0f} MiB"
    )
    ratio = one.without_listing / another.without_listing
    pair = (another.without_listing, one.without_listing)
    yield figure("memory.flat", [pair], [ratio], goal=GOAL, unit=unit)


@dataclass(frozen=True)
class Memory:
    """Memory of a process in MiB: at the start, added by the listing, and the maximum during extraction."""

    start: float
    listing: float
    peak: float

    @property
    def without_listing(self) -> float:
        """Peak without the listing."""
        return self.peak - self.listing

    @property
    def grown(self) -> float:
        """Growth by extraction at its peak."""
        return self.peak - self.start - self.listing


def measured(folder: Path, count: int) -> Memory:
    """Return the memory of a process that embeds this many images."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(memory_of, folder, count).result()


def memory_of(folder: Path, count: int) -> Memory:
    """Embed this many images in this process, sampling its memory after each batch."""
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
    """Return the resident memory of this process in MiB."""
    return float(psutil.Process().memory_info().rss) / MEGABYTE


class Enlarged:
    """Decoder that returns a photograph-sized array for any file."""

    text = "enlarged"

    def check(self, name: str, sha256: bytes) -> None:
        """Accept any file."""

    def __call__(self, name: str, image: np.ndarray) -> np.ndarray:
        """Return uint8 [375, 500, 3] with every page written."""
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
        """Return a corner, uint8 [3, 64, 64]."""
        return torch.from_numpy(image[:SIDE, :SIDE].copy()).permute(2, 0, 1)

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return vectors float32 [B, D], each one number of its image repeated."""
        return {"x": batch[:, 0, 0, :1].float().expand(len(batch), DIM).contiguous()}
