import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from colour_images import list_images, make_images, run
from updates import BAD

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.storage import store

MakeCache = Callable[..., Path]


def build_cache(
    path: Path,
    labels: Sequence[str] = ("ant", "bee", "ant", "cow", "bee", "ant", "cow"),
    groups: Sequence[str | None] | None = None,
    splits: Sequence[str | None] | None = None,
    times: Sequence[str | None] | None = None,
    content: Sequence[bytes] | None = None,
    dims: dict[str, int] | None = None,
    models: dict[str, str] | None = None,
    bad: Sequence[int] = (),
    shard_rows: int = 3,
    class_names: Sequence[str] | None = None,
    finish: bool = True,
) -> Path:
    """Write a small cache with known vectors: row r of the listing holds r + j / 16 at index j of every column."""
    dims = dims or {"cls": 4, "patch_mean": 2}
    n = len(labels)
    items = [
        Item(
            f"img/{i:04d}.png",
            Path(f"/data/{i:04d}.png"),
            labels[i],
            groups and groups[i],
            splits and splits[i],
            times and times[i],
        )
        for i in range(n)
    ]
    content = content or [hashlib.sha256(item.id.encode()).digest() for item in items]
    recipes = {name: Recipe(provider="external", model=(models or {}).get(name, "m")) for name in dims}
    cache: dict[str, Any] = {
        "format_version": store.FORMAT_VERSION,
        "source": {"kind": "test"},
        "class_names": list(class_names or sorted(set(labels))),
        "columns": store.describe_columns(recipes, dims),
        "shard_rows": shard_rows,
    }
    store.write_json(path / "cache.json", cache)
    store.write_items(path, items)
    for i in range(-(-n // shard_rows)):
        listed = range(i * shard_rows, min(n, (i + 1) * shard_rows))
        rows = [r for r in listed if r not in bad]
        vectors = {
            name: np.array([[r + j / 16 for j in range(d)] for r in rows], np.float16).reshape(-1, d)
            for name, d in dims.items()
        }
        failed = [{"id": items[r].id, "path": str(items[r].path), "reason": "truncated"} for r in listed if r in bad]
        ids, digests = [items[r].id for r in rows], [content[r] for r in rows]
        store.write_shard(path, i, ids, digests, vectors, failed, recipes, dims)
    if finish:
        store.write_manifest(path)
    return path


@pytest.fixture
def make_cache(tmp_path: Path) -> MakeCache:
    """Return a factory of small finished caches in separate folders."""
    made: list[Path] = []

    def make(**changes: Any) -> Path:
        made.append(build_cache(tmp_path / f"cache{len(made)}", **changes))
        return made[-1]

    return make


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small blocks, so that small tables have several."""
    monkeypatch.setattr("frostbench.embedcache.index.search.QUERY_ROWS", 37)
    monkeypatch.setattr("frostbench.embedcache.index.search.BASE_ROWS", 53)
    monkeypatch.setattr("frostbench.embedcache.index.pairs.QUERY_ROWS", 41)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Make images 0 to 22 and their cache."""
    make_images(tmp_path / "images", range(23), BAD)
    run(list_images(tmp_path / "images", range(23)), tmp_path / "cache")
    return tmp_path
