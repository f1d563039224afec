"""`python -m frostbench.benchmarks.speed.gpu_extract`: extraction speed on a GPU, as a table; status 2 without CUDA.

DINOv3 ViT-S, B and L with 16-pixel patches and random weights, at 224 and 256 pixels, in images per second:

- forward: only the network and its pooling, on normalised images in GPU memory, the better of two batch sizes.
- decoded: all of extraction after decoding, from uint8 images in host memory to float16 rows.
- JPEG: extraction from files of 500 × 375 pixels to a cache on disk, with all cores.
- HF pipeline: image-feature-extraction of transformers on the same files and weights, with batches and pooled vectors,
in the same number type.

Each is the best of three runs. Shares are relative to the forward rate.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from frostbench.benchmarks.speed.peers import Loop, hf_pipeline
from frostbench.benchmarks.speed.photos import photos
from frostbench.benchmarks.speed.subjects import Subject, number_type, random_timm
from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.extraction.backbone_group import backbone_group
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.forward_pool import ForwardPool
from frostbench.embedcache.extraction.pipeline import Decoded, decode_ahead, usable_cores
from frostbench.embedcache.extraction.shard_rows import ShardRows
from frostbench.embedcache.items import Listing

MODELS = ("vit_small_patch16_dinov3", "vit_base_patch16_dinov3", "vit_large_patch16_dinov3")
SIZES = (224, 256)
BATCHES = (64, 256)
REPEATS = 3
HEADER = (
    "| model | pixels | forward | decoded | share | JPEG | share | HF pipeline | JPEG / HF |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
)


@dataclass(frozen=True)
class Rates:
    """Images per second of one model at one size."""

    model: str
    size: int
    forward: float
    decoded: float
    jpeg: float
    pipeline: float

    def row(self) -> str:
        """Return the line of the table.

        >>> Rates("m", 224, 1000.0, 900.0, 500.0, 100.0).row()
        '| m | 224 | 1000 | 900 | 0.90 | 500 | 0.50 | 100 | 5.0 |'
        """
        shares = [f"{rate:.0f} | {rate / self.forward:.2f}" for rate in (self.decoded, self.jpeg)]
        cells = [self.model, self.size, f"{self.forward:.0f}", *shares, f"{self.pipeline:.0f}"]
        return f"| {' | '.join(map(str, cells))} | {self.jpeg / self.pipeline:.1f} |"


@dataclass(frozen=True)
class Counts:
    """Number of images for each side: ours decodes ahead, the pipeline decodes in one thread."""

    ours: int = 4_096
    pipeline: int = 512


def rates(subject: Subject, listing: Listing, counts: Counts) -> Rates:
    """Measure the four rates of a model."""
    recipe = subject.backbone.recipe
    decoded = decode_all(subject, listing)
    few = [item.path for item in listing.items[: counts.pipeline] if item.path is not None]
    loop = hf_pipeline(subject)

    def jpeg() -> None:
        with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
            for _ in extract(listing, subject.backbone, Path(folder) / "cache"):
                pass

    return Rates(
        recipe.model,
        recipe.size or 0,
        max(forward_rate(subject, decoded, batch) for batch in BATCHES),
        best_rate(lambda: embed_decoded(subject, decoded), len(decoded)),
        best_rate(jpeg, len(listing.items)),
        best_rate(lambda: run_alike(subject, loop, few), len(few)),
    )


def decode_all(subject: Subject, listing: Listing) -> list[Decoded]:
    """Return every image, prepared."""
    cores = usable_cores()
    outcomes = decode_ahead(listing.items, backbone_group(subject.backbone), PIXEL_LIMIT, cores, ahead=4 * cores)
    return [outcome for outcome in outcomes if isinstance(outcome, Decoded)]


def embed_decoded(subject: Subject, decoded: Sequence[Decoded]) -> int:
    """Run all of extraction between decoding and writing; return the number of rows."""
    rows = ShardRows(backbone_group(subject.backbone))
    for _ in rows.embed(iter(decoded), subject.backbone.batch, ForwardPool()):
        pass
    return len(rows.ids)


def forward_rate(subject: Subject, decoded: Sequence[Decoded], batch: int) -> float:
    """Return the rate of the network and its pooling, on a batch that stays on the device."""
    backbone = subject.backbone
    images = torch.stack([one.image[0] for one in decoded[:batch]]).to(backbone.device)
    times = max(1, len(decoded) // len(images))

    def run() -> None:
        with torch.inference_mode(), number_type(subject):
            for _ in range(times):
                found = {name: value.float() for name, value in backbone.forward(x).items()}
                for name in backbone.poolings.values():
                    backbone.tower.pool(found, name)

    with torch.inference_mode():
        x = backbone.normalise(images)
    return best_rate(run, times * len(images))


def run_alike(subject: Subject, loop: Loop, paths: Sequence[Path]) -> None:
    """Run the pipeline in our number type."""
    with number_type(subject):
        loop(paths)


def best_rate(action: Callable[[], object], images: int) -> float:
    """Return images per second of the fastest of three runs, after a warm-up run."""
    best = float("inf")
    for turn in range(REPEATS + 1):
        _synchronise()
        start = time.perf_counter()
        action()
        _synchronise()
        if turn:
            best = min(best, time.perf_counter() - start)
    return images / best


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def table(
    device: str, models: Sequence[str], sizes: Sequence[int], counts: Counts, images: Path | None = None
) -> Iterator[str]:
    """Yield the lines of the table as soon as they are measured."""
    yield from HEADER
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        listing = photos(Path(folder) / "images", counts.ours, images)
        for model in models:
            for size in sizes:
                yield rates(random_timm(model, size, Path(folder), device), listing, counts).row()


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] | None = None) -> int:
    """Measure on the GPU and return the exit status; 2 without CUDA."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.speed.gpu_extract", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer images, ViT-S only")
    parser.add_argument("--images", type=Path, help="a source of images, as for embed, instead of generated ones")
    chosen = parser.parse_args(arguments)
    emit = say or _say
    if not torch.cuda.is_available():
        emit("This benchmark needs a CUDA device, but torch sees none. Nothing was measured.")
        return 2
    counts, models = (Counts(1_024, 128), MODELS[:1]) if chosen.quick else (Counts(), MODELS)
    emit(f"{torch.cuda.get_device_name()}, {usable_cores()} cores, torch {torch.__version__}; images per second\n")
    for line in table("cuda", models, SIZES, counts, chosen.images):
        emit(line)
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
