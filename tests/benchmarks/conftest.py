"""A small long-tailed cache: six gaussian classes, two images to a group."""

from pathlib import Path

import numpy as np
import pytest

import frostbench.benchmarks.runs.train_missing as train_missing
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.storage.files import write_json
from frostbench.embedcache.storage.store import (
    FORMAT_VERSION,
    describe_columns,
    write_items,
    write_manifest,
    write_shard,
)

COUNTS = (120, 60, 40, 24, 16, 12)
NAMES = ("ash", "beech", "cedar", "<img onerror=alert(1)>", "elm & oak", "fir")
DIM = 8


def _write_cache(folder: Path, *, relabel: dict[int, str] | None = None, counts: tuple[int, ...] = COUNTS) -> Path:
    """A finished cache whose vectors follow from its row numbers."""
    generator = np.random.default_rng(7)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = generator.normal(0, 1.0, (len(counts), DIM))
    vectors = (centres[labels] + generator.normal(0, 1.0, (len(labels), DIM))).astype(np.float16)
    columns, dims = {"toy": Recipe(provider="external", model="gaussian")}, {"toy": DIM}
    items = [
        Item(id=f"{i:04d}", path=None, label=NAMES[label], group=f"g{i // 2}", split=None)
        for i, label in enumerate(labels)
    ]
    for row, name in (relabel or {}).items():
        items[row] = Item(id=items[row].id, path=None, label=name, group=items[row].group, split=None)
    content = [i.to_bytes(32, "big") for i in range(len(items))]
    state = {
        "format_version": FORMAT_VERSION,
        "class_names": sorted(NAMES),
        "columns": describe_columns(columns, dims),
        "shard_rows": 10_000,
    }
    write_json(folder / "cache.json", state)
    write_items(folder, items)
    write_shard(folder, 0, [item.id for item in items], content, {"toy": vectors}, [], columns, dims)
    write_manifest(folder)
    return folder


@pytest.fixture(scope="session")
def write_cache():
    """Writes the cache to a folder, with other labels or counts where they are given."""
    return _write_cache


@pytest.fixture
def cache(tmp_path):
    return _write_cache(tmp_path / "cache")


@pytest.fixture
def fits(monkeypatch):
    """How many runs each call of fit was given."""
    calls = []
    real = train_missing.fit

    def counted(runs, data, stop, checkpoints, **rest):
        calls.append(len(runs))
        return real(runs, data, stop, checkpoints, **rest)

    monkeypatch.setattr(train_missing, "fit", counted)
    return calls
