"""Verifying a complete cache against its digests and, given the backbone, against the current environment."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.embedcache.canary import APART, apart
from frostbench.embedcache.counting import things
from frostbench.embedcache.hashes import hash_table
from frostbench.embedcache.splits.files import read_split
from frostbench.embedcache.storage.damage import MISREAD, reading, remedy
from frostbench.embedcache.storage.digests import check_digests, digests_of
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import bounds, shard_sizes
from frostbench.embedcache.storage.listing import effective_groups, read_item_columns, rows_of
from frostbench.embedcache.storage.state import (
    read_quarantine,
    read_recipe,
    read_shard_bad,
    read_shard_columns,
    read_shard_keys,
    read_state,
    same_columns,
)
from frostbench.embedcache.storage.store import bad_path, shard_path
from frostbench.embedcache.storage.vectors import read_vectors
from frostbench.embedcache.table import read_table
from frostbench.embedcache.views.sets import list_views, read_views

EmbedCanary = Callable[[], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Check:
    """Result of one check; `detail` describes it."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class VerifyReport:
    """Checks of a cache, in order."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


def verify_cache(cache_dir: Path, backbone: EmbedCanary | None = None) -> VerifyReport:
    """Check every file of a cache; failed checks are reported, not raised.

    Args:
        cache_dir: the cache.
        backbone: function that embeds the canary image and returns its vector [D] by column; None skips that check.
    """
    state = _check("complete, known format, unchanged", lambda: _state(cache_dir))
    if not state.ok:
        return VerifyReport((state,))
    checks = [
        state,
        _check("SHA-256 of each shard", lambda: _shard_hashes(cache_dir)),
        _check("rows + quarantine = listing", lambda: _counts(cache_dir)),
        _check("recipes of the shards", lambda: _recipes(cache_dir)),
        _check("page checksums, ids and finite vectors", lambda: _content(cache_dir)),
        _check("splits", lambda: _splits(cache_dir)),
        _check("view sets", lambda: _view_sets(cache_dir)),
    ]
    if backbone is not None:
        checks.append(_check("canary", lambda: _canary(cache_dir, backbone)))
    return VerifyReport(tuple(checks))


def _check(name: str, question: Callable[[], str]) -> Check:
    """Run a check; any error from a damaged file becomes a failed check."""
    try:
        return Check(name, True, question())
    except MISREAD as error:
        return Check(name, False, str(error))


def _state(cache_dir: Path) -> str:
    manifest = read_state(cache_dir)[1]
    return f"{manifest['n_listed']} listed, {manifest['n_ok']} embedded, {manifest['n_bad']} quarantined"


def _shard_hashes(cache_dir: Path) -> str:
    manifest = read_state(cache_dir)[1]
    paths = [shard_path(cache_dir, i) for i in range(len(manifest["shards"]))]
    check_digests(paths, digests_of(manifest))
    return things(len(manifest["shards"]), "shard", "shards")


def _counts(cache_dir: Path) -> str:
    cache, manifest = read_state(cache_dir)
    with reading(cache_dir / "items.parquet"):
        listed = read_item_columns(cache_dir)["id"]
    rows = bad = 0
    for i, (start, stop) in enumerate(bounds(shard_sizes(cache, len(listed), cache_dir))):
        ids, failed = read_shard_keys(cache_dir, i)[0], [row["id"] for row in read_shard_bad(cache_dir, i)]
        if sorted(ids + failed) != sorted(listed[start:stop]):
            path = shard_path(cache_dir, i)
            raise CacheError(
                f"{path.name} and {bad_path(cache_dir, i).name} must contain the items listed for them, but those of "
                f"{cache_dir} do not. {remedy(path)}"
            )
        rows += len(ids)
        bad += len(failed)
    if (rows, bad, rows + bad) != (manifest["n_ok"], manifest["n_bad"], manifest["n_listed"]):
        raise CacheError(
            f"The manifest must match the shards, but in {cache_dir} it states {manifest['n_ok']} rows and "
            f"{manifest['n_bad']} quarantined of {manifest['n_listed']} items, and the shards hold {rows} rows and "
            f"{bad} quarantined. {remedy(cache_dir / 'manifest.json')}"
        )
    return f"{rows} + {bad} = {len(listed)}"


def _recipes(cache_dir: Path) -> str:
    cache, manifest = read_state(cache_dir)
    for i, shard in enumerate(manifest["shards"]):
        if not same_columns(read_shard_columns(cache_dir, i), cache["columns"]):
            raise CacheError(
                f"{shard['name']} must have the recipes of cache.json, but has others. "
                f"{remedy(shard_path(cache_dir, i))}"
            )
    return ", ".join(f"{name} {column['recipe_hash']}" for name, column in sorted(cache["columns"].items()))


def _content(cache_dir: Path) -> str:
    """Read the columns one by one, so that only one is in memory."""
    cache, manifest = read_state(cache_dir)
    paths = [shard_path(cache_dir, i) for i in range(len(manifest["shards"]))]
    for name, column in sorted(cache["columns"].items()):
        storage = read_recipe(cache_dir, name, column).storage
        read_vectors(paths, name, column["dim"] * column.get("tokens", 1), verify=True, storage=storage)
    rows = read_table(cache_dir, sorted(cache["columns"])[:1], unlabelled=True).rows_hash
    found = hash_table({name: column["recipe_hash"] for name, column in cache["columns"].items()}, rows)
    stated = manifest["content_hash"]
    if found != stated:
        raise CacheError(
            f"The content hash must be {stated[:12]}…, but is {found[:12]}…. If cache.json was edited, restore it."
        )
    return f"content hash {found[:12]}…"


def _splits(cache_dir: Path) -> str:
    files = sorted((cache_dir / "splits").glob("*.parquet"))
    for file in files:
        read_split(file)
    return things(len(files), "split", "splits")


def _view_sets(cache_dir: Path) -> str:
    names = list_views(cache_dir)
    if not names:
        return "0 view sets"
    table = read_table(cache_dir, stored=True)
    for name in names:
        for column in read_views(cache_dir, name, table, stored=True).table.stored.values():
            column.check()
    return things(len(names), "view set", "view sets")


def _canary(cache_dir: Path, backbone: EmbedCanary) -> str:
    canary = read_state(cache_dir)[0].get("canary")
    if canary is None:
        raise CacheError(
            "A canary check needs a canary in cache.json, but imported vectors have none. Verify without it."
        )
    now = backbone()
    distances = {name: apart(np.asarray(now[name]), np.asarray(old)) for name, old in canary["vectors"].items()}
    shown = ", ".join(f"{name} {value:.6f}" for name, value in sorted(distances.items()))
    if not max(distances.values()) <= APART:
        raise CacheError(
            f"The canary must be reproduced to within {APART} of its vectors' norm, but differs by {shown}. "
            "A different library version or device gives different vectors: do not mix them with this cache."
        )
    return f"distance {shown}"


def cache_info(cache_dir: Path) -> dict[str, Any]:
    """Summarise a complete cache for JSON, without reading vectors.

    Keys: n_listed, n_ok, n_bad, unlabelled (rows without a label), classes {name: rows}, groups (None if none are
    given), columns {name: {dim, tokens if any, recipe_hash, model}}, bytes, quarantine {reason: rows} (see
    `count_reasons`), source, content_hash.

    Raises:
        CacheError: the cache is incomplete, damaged or of another format.
    """
    cache, manifest = read_state(cache_dir)
    with reading(cache_dir / "items.parquet"):
        listing = read_item_columns(cache_dir)
    keys = [read_shard_keys(cache_dir, i) for i in range(len(manifest["shards"]))]
    content = [digest for _, digests in keys for digest in digests]
    rows = rows_of(listing["id"], [one for ids, _ in keys for one in ids])
    counts = Counter(listing["label"][row] for row in rows)
    groups = set(effective_groups([listing["group"][row] for row in rows], content))
    return {
        "n_listed": manifest["n_listed"],
        "n_ok": manifest["n_ok"],
        "n_bad": manifest["n_bad"],
        "unlabelled": counts[""],
        "classes": {name: counts[name] for name in cache["class_names"]},
        "groups": len(groups) if any(listing["group"]) else None,
        "columns": {
            name: {
                "dim": column["dim"],
                **({"tokens": column["tokens"]} if "tokens" in column else {}),
                "recipe_hash": column["recipe_hash"],
                "model": read_recipe(cache_dir, name, column).model,
            }
            for name, column in cache["columns"].items()
        },
        "bytes": sum(path.stat().st_size for path in cache_dir.rglob("*") if path.is_file()),
        "quarantine": count_reasons([row["reason"] for row in read_quarantine(cache_dir)]),
        "source": cache.get("source"),
        "content_hash": manifest["content_hash"],
    }


def count_reasons(reasons: Sequence[str]) -> dict[str, int]:
    """Count the reasons, merging those that differ only in numbers, which are replaced by ….

    >>> count_reasons(["truncated", "has 9 x 8 pixels", "has 7 x 6 pixels"])
    {'truncated': 1, 'has … x … pixels': 2}
    """
    alike: dict[str, Counter[str]] = {}
    for reason in reasons:
        alike.setdefault(re.sub(r"[0-9]+", "…", reason), Counter())[reason] += 1
    return {next(iter(found)) if len(found) == 1 else text: found.total() for text, found in alike.items()}
