"""JPEG files to embed: crops of the two photographs that come with scikit-learn, or the images of a folder."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from frostbench.embedcache.items import Listing
from frostbench.embedcache.sources.source import list_folder, list_source

PHOTOS = ("china.jpg", "flower.jpg")
WIDTH, HEIGHT = 500, 375


def photos(folder: Path, count: int, images: Path | None = None) -> Listing:
    """Return a listing of at most this many images, made in `folder` or taken evenly from the source `images`."""
    if images is None:
        write_images(folder, count)
        return list_folder(folder)
    listing = list_source(images)
    rows = np.linspace(0, len(listing.items), min(count, len(listing.items)), endpoint=False).astype(int)
    return replace(listing, items=tuple(listing.items[row] for row in rows))


def write_images(folder: Path, count: int) -> None:
    """Write distinct crops of both photographs, alternating, as JPEG files of 500 × 375 pixels in one class."""
    pictures = [load_sample_image(name) for name in PHOTOS]
    (folder / "cut").mkdir(parents=True)
    generator = np.random.default_rng(0)
    for i in range(count):
        picture = pictures[i % len(pictures)]
        top, left = (int(generator.integers(0, room)) for room in (picture.shape[0] - HEIGHT, picture.shape[1] - WIDTH))
        cut = picture[top : top + HEIGHT, left : left + WIDTH]
        Image.fromarray(cut).save(folder / "cut" / f"{i:05d}.jpg", quality=90)


def pieces(listing: Listing, size: int) -> Iterator[Listing]:
    """Split a listing into pieces of `size` images; a shorter rest is dropped, unless it is the only piece."""
    whole = max(1, len(listing.items) // size)
    for i in range(whole):
        yield replace(listing, items=listing.items[i * size : (i + 1) * size])
