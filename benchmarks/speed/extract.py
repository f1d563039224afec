"""Extraction against its ideal: decoding alone, then the forward pass alone, each with every core busy.

The images are JPEG files of 500 × 375 pixels cut from a photograph that comes with scikit-learn; the backbone is the
bundled EfficientNet-Lite0. Both sides decode, resize and embed the same files. Ours also lists, hashes, checks,
converts and writes them and embeds the canary, and that is what it costs; where decoding hides behind the forward pass,
it can come out above the ideal.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from benchmarks.speed.harness import Figure, compare
from embedcache.backbones import Backbone, load_backbone
from embedcache.decode import PIXEL_LIMIT
from embedcache.extract import extract
from embedcache.items import Item
from embedcache.pipeline import Decoded, decode_ahead, usable_cores
from embedcache.sources import list_folder
from embedcache.together import together

IMAGES = 384
QUICK_IMAGES = 96
GOAL = 0.85


def figures(quick: bool) -> Iterator[Figure]:
    """The one figure; `quick` embeds fewer images, fewer times."""
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        root = Path(folder)
        write_images(root / "images", QUICK_IMAGES if quick else IMAGES)
        listing = list_folder(root / "images")
        backbone = load_backbone("bundled", "efficientnet_lite0")
        prepared = decode_all(listing.items, backbone)

        def ours() -> None:
            shutil.rmtree(root / "cache", ignore_errors=True)
            for _ in extract(listing, backbone, root / "cache"):
                pass

        def ideal() -> None:
            decode_all(listing.items, backbone)
            for batch in torch.split(prepared, backbone.batch):
                backbone.embed(batch)

        n = len(listing.items)
        unit = f"ideal seconds / our seconds for {n} images"
        yield compare("extract.share_of_ideal", ours, ideal, goal=GOAL, repeats=3 if quick else 9, unit=unit)


def decode_all(items: Sequence[Item], backbone: Backbone) -> torch.Tensor:
    """Every image decoded and resized with all cores, uint8 [N, 3, S, S]."""
    cores = usable_cores()
    outcomes = decode_ahead(items, together(backbone), PIXEL_LIMIT, cores, ahead=4 * cores)
    return torch.stack([outcome.image[0] for outcome in outcomes if isinstance(outcome, Decoded)])


def write_images(folder: Path, count: int) -> None:
    """Distinct cuts of one photograph as JPEG files of 500 × 375 pixels, all of one class."""
    photo = load_sample_image("china.jpg")
    (folder / "cut").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for i in range(count):
        top, left = generator.integers(0, photo.shape[0] - 375), generator.integers(0, photo.shape[1] - 500)
        cut = photo[top : top + 375, left : left + 500]
        Image.fromarray(cut).save(folder / "cut" / f"{i:05d}.jpg", quality=90)
