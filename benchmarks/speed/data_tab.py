"""How long users of the tabs Data and Images wait: for the map, for pictures, and for labels ranked again."""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from frostbench.benchmarks.speed.runs_tab import Times
from frostbench.benchmarks.speed.serving import Served, opened
from frostbench.embedcache.items import Item
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.files import write_json
from frostbench.embedcache.storage.store import (
    FORMAT_VERSION,
    describe_columns,
    write_items,
    write_manifest,
    write_shard,
)
from frostbench.embedcache.thumbnails import NAME as THUMBNAILS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MAPS = {"map_50k": (50_000, 0.5), "map_250k": (250_000, 1.5)}
"""Images and goal in seconds of each map; vectors have 16 numbers, since only two of them are drawn."""
QUICK_SHARE = 20
"""The quick run has this many times fewer images."""
PICTURES, PICTURES_SECONDS, IMAGES = 500, 0.5, 100_000
PER_REQUEST = 100
RELABEL_IMAGES, RELABEL_DIM, RELABEL_SECONDS = 50_000, 768, 1.0
SHARD_ROWS = 10_000
DRAWN = "() => document.querySelector('.map[data-state=ready]') && performance.now()"
TABLE = "CREATE TABLE IF NOT EXISTS thumbnails (sha256 TEXT, size INTEGER, webp BLOB, PRIMARY KEY (sha256, size))"


def write_caches(folder: Path, quick: bool) -> None:
    """Write the caches of all figures: for the maps, for pictures, and for labels."""
    share = QUICK_SHARE if quick else 1
    for name, (images, _) in MAPS.items():
        write_cache(folder / name, images // share, 16, 50)
    write_cache(folder / "pictures", IMAGES // share, 16, 200)
    write_thumbnails(folder / "pictures", PICTURES)
    write_cache(folder / "labels", RELABEL_IMAGES // share, RELABEL_DIM, 50)


def write_cache(folder: Path, images: int, dim: int, classes: int) -> None:
    """Write a finished cache of Gaussian classes, whose images have no files."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, images)
    centres = rng.normal(0, 1, (classes, dim))
    columns, dims = {"x": Recipe(provider="external", model="gaussian")}, {"x": dim}
    items = [Item(id=f"{i:06d}", path=None, label=f"class {c:03d}", group="", split=None) for i, c in enumerate(labels)]
    names = sorted({item.label for item in items})
    state = {"format_version": FORMAT_VERSION, "class_names": names, "columns": describe_columns(columns, dims)}
    folder.mkdir(parents=True)
    write_json(folder / "cache.json", state | {"shard_rows": SHARD_ROWS})
    write_items(folder, items)
    for shard, start in enumerate(range(0, images, SHARD_ROWS)):
        some = items[start : start + SHARD_ROWS]
        vectors = (centres[labels[start : start + len(some)]] + rng.normal(0, 1, (len(some), dim))).astype(np.float16)
        content = [hashlib.sha256(item.id.encode()).digest() for item in some]
        write_shard(folder, shard, [item.id for item in some], content, {"x": vectors}, [], columns, dims)
    write_manifest(folder)


def write_thumbnails(folder: Path, number: int) -> None:
    """Write pictures of 96 px of the first images, as if they had been shown before."""
    rng = np.random.default_rng(0)
    with closing(sqlite3.connect(folder / THUMBNAILS)) as kept, kept:
        kept.execute(TABLE)
        for i in range(number):
            out = BytesIO()
            Image.fromarray(rng.integers(0, 256, (96, 96, 3), dtype=np.uint8)).save(out, "WEBP", quality=70)
            content = hashlib.sha256(f"{i:06d}".encode()).hexdigest()
            kept.execute("INSERT INTO thumbnails VALUES (?, ?, ?)", (content, 96, out.getvalue()))


def measure(browser: "Browser", served: Served, repeats: int) -> Iterator[Times]:
    """Yield the times of the maps, of 500 pictures and of labels ranked again."""
    for name, (_, limit) in MAPS.items():
        # The first visit also computes the principal components.
        yield Times(f"app.{name}", [draw(browser, served.url, name) for _ in range(repeats + 1)][1:], limit)
    yield Times("app.thumbnails", [pictures(served) for _ in range(repeats + 1)][1:], PICTURES_SECONDS)
    yield Times("app.relabel", relabel(served, repeats), RELABEL_SECONDS)


def draw(browser: "Browser", url: str, cache: str) -> float:
    """Return seconds from opening the tab Data to the drawn map."""
    with opened(browser, f"{url}data?cache={cache}") as page:
        return float(page.wait_for_function(DRAWN).json_value()) / 1000


def pictures(served: Served) -> float:
    """Return seconds until the server has sent 500 small pictures."""
    ids = [f"{i:06d}" for i in range(PICTURES)]
    began = time.perf_counter()
    for start in range(0, PICTURES, PER_REQUEST):
        served.ask("pictures", {"cache": "pictures", "size": 96, "ids": ids[start : start + PER_REQUEST]})
    return time.perf_counter() - began


def relabel(served: Served, times: int) -> list[float]:
    """Return seconds from correcting a label to the labels ranked again; the neighbours are known by then."""
    wait(served)
    found = []
    for i in range(times):
        began = time.perf_counter()
        change = {f"{i:06d}": f"class {(7 * i) % 50:03d}"}
        served.ask("correct", {"cache": "labels", "changes": change, "who": "speed"})
        wait(served)
        found.append(time.perf_counter() - began)
    return found


def wait(served: Served) -> None:
    """Ask until the labels to check are ranked."""
    while served.ask("checks", {"cache": "labels"})["state"] == "computing":
        time.sleep(0.05)
