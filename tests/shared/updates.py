"""A change of a folder of images, and whether two caches hold the same rows."""

from pathlib import Path
from typing import Any

from colour_images import list_images, make_images, paint

from frostbench.embedcache.checking.verify import verify_cache
from frostbench.embedcache.items import Listing
from frostbench.embedcache.storage.store import read_bad, read_json, shard_path
from frostbench.embedcache.table import FeatureTable, read_table

BAD = frozenset({3, 9, 21})
"""Of the first 23 images, which are shards 0-4, 5-9, 10-14, 15-19 and 20-22."""


def change(root: Path) -> Listing:
    """Image 1 is another picture, 7, 8, 13 are gone, 23 to 28 are new (24 is bad), 10 is relabelled, 16 regrouped."""
    make_images(root, range(23, 29), frozenset({24}))
    paint(root / "001.png", 200)
    numbers = [n for n in range(29) if n not in (7, 8, 13)]
    return list_images(
        root, numbers, lambda n: "c" if n == 10 else "ab"[n % 2], lambda n: "other" if n == 16 else f"g{n // 2}"
    )


def by_id(table: FeatureTable) -> dict[str, Any]:
    """What a table says of each row, whatever their order."""
    names = [table.class_names[label] for label in table.labels]
    vectors = [tuple(x[i].tobytes() for x in table.columns.values()) for i in range(len(table.ids))]
    return dict(zip(table.ids.tolist(), zip(names, table.groups, table.content, vectors, strict=True), strict=True))


def assert_same_rows(cache: Path, fresh: Path) -> None:
    one, other = read_table(cache, verify=True), read_table(fresh, verify=True)
    assert by_id(one) == by_id(other)
    assert one.class_names == other.class_names
    bad = [
        {row["id"]: row for i in range(9) if shard_path(c, i).exists() for row in read_bad(c, i)}
        for c in (cache, fresh)
    ]
    assert bad[0] == bad[1]
    counts = [
        {name: read_json(c / "manifest.json")[name] for name in ("n_listed", "n_ok", "n_bad")} for c in (cache, fresh)
    ]
    assert counts[0] == counts[1]
    report = verify_cache(cache)
    assert report.ok, report
