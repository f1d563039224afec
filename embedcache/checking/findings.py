"""Findings: problems of a cache on disk, each with its repair."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from frostbench.embedcache.counting import things
from frostbench.embedcache.extraction.embed_command import run_again
from frostbench.embedcache.extraction.reopening import drop_shard, read_digests
from frostbench.embedcache.hashes import file_sha256
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.damage import MISREAD, is_imported
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.layout import Layout
from frostbench.embedcache.storage.own import PARTIAL, STAGED, is_plain
from frostbench.embedcache.storage.sealing import SEALED, check_unchanged, seal
from frostbench.embedcache.storage.state import read_shard_bad, read_shard_columns, same_columns
from frostbench.embedcache.storage.store import bad_path, finished_shards, shard_name, shard_path


@dataclass(frozen=True)
class Finding:
    """One problem of a cache.

    Attributes:
        what: the problem, with the file.
        repair: what to do, with a command if there is one.
        mend: function that makes the safe repair; None if a person must decide.
        done: description of what `mend` did.
        harmless: whether the cache works nevertheless.
    """

    what: str
    repair: str
    mend: Callable[[], None] | None = None
    done: str = ""
    harmless: bool = False


def shard_findings(
    cache_dir: Path, cache: Mapping[str, Any], manifest: Mapping[str, Any] | None, layout: Layout
) -> Iterator[Finding]:
    """Yield findings for shards that are missing, damaged, of another recipe, with other rows, or not listed."""
    finished = finished_shards(cache_dir)
    digests = [shard["sha256"] for shard in manifest["shards"]] if manifest is not None else []
    for i, listed in enumerate(layout.shards):
        path = shard_path(cache_dir, i)
        if i not in finished:
            if manifest is not None:
                yield _shard(cache_dir, cache, i, f"{shard_name(i)} is missing: {path} does not exist.")
            continue
        digest = digests[i] if i < len(digests) else None
        wrong = _wrong_with(cache_dir, cache, i, digest, {item.id for item in listed})
        if wrong:
            yield _shard(cache_dir, cache, i, f"{shard_name(i)} {wrong}: {path}.")
    yield from _orphans(cache_dir, len(layout.shards))


def _wrong_with(cache_dir: Path, cache: Mapping[str, Any], i: int, digest: str | None, listed: set[str]) -> str:
    """Describe the problem of an existing shard; empty if there is none."""
    path = shard_path(cache_dir, i)
    try:
        columns = read_shard_columns(cache_dir, i)
    except MISREAD:
        return "cannot be read"
    if not same_columns(columns, dict(cache["columns"])):
        return "has another recipe than cache.json (a foreign shard)"
    try:
        bad = [row["id"] for row in read_shard_bad(cache_dir, i)]
    except MISREAD:
        return f"has no readable quarantine {bad_path(cache_dir, i).name}"
    ids = _ids(path)
    if ids is None:
        return "cannot be read"
    if twice := sorted(one for one, count in Counter([*ids, *bad]).items() if count > 1)[:3]:
        return f"contains an id more than once ({', '.join(twice)})"
    if set(ids) | set(bad) != listed:
        return "contains other images than those listed for it"
    if digest is not None and file_sha256(path) != digest:
        return "was changed (its SHA-256 differs from the manifest)"
    return "" if read_digests(cache_dir, i, None) is not None else "has pages with wrong checksums"


def _ids(path: Path) -> list[str] | None:
    try:
        ids: list[str] = pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    except (OSError, pa.ArrowException):
        return None
    return ids


def _shard(cache_dir: Path, cache: Mapping[str, Any], i: int, what: str) -> Finding:
    if is_imported(cache_dir):
        return Finding(what, "Import the vectors again, into a new folder: frostbench cache import …")

    def mend() -> None:
        (cache_dir / "manifest.json").unlink(missing_ok=True)
        drop_shard(cache_dir, i)

    which = "it and manifest.json" if shard_path(cache_dir, i).exists() else "manifest.json"
    repair = f"Delete {which} (--repair does), then {run_again(cache_dir, cache)}"
    return Finding(what, repair, mend, f"deleted {shard_name(i)} and the manifest; the embed command recreates it")


def seal_findings(cache_dir: Path, manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding if cache.json or views.parquet was changed, or the manifest lacks their digests."""
    try:
        check_unchanged(cache_dir, manifest)
    except CacheError as error:
        yield Finding(*described(error))
        return
    lacking = [name for name, key in SEALED.items() if key not in manifest and (cache_dir / name).is_file()]
    if lacking:
        path = cache_dir / "manifest.json"
        yield Finding(
            f"{path} lacks the SHA-256 of {' and '.join(lacking)}, because an earlier version wrote it.",
            "Add it (--repair does), so that later changes are noticed.",
            lambda: seal(cache_dir),
            f"added the SHA-256 of {' and '.join(lacking)} to {path}",
            harmless=True,
        )


def edited_recipes(cache_dir: Path, cache: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding if cache.json was edited: the recipe of a column does not match its hash."""
    columns = cache["columns"].items()
    if edited := [name for name, one in columns if one["recipe_hash"] not in _hashes(one["recipe"])]:
        names, one = ", ".join(edited), len(edited) == 1
        what = f"recipe of {names} does not match its hash" if one else f"recipes of {names} do not match their hashes"
        yield Finding(
            f"{cache_dir / 'cache.json'} was edited: the {what}.",
            "Restore the old file, or embed again elsewhere. The schema of each shard has the original columns.",
        )


def _hashes(tree: Mapping[str, Any]) -> set[str]:
    """Return the hashes of a recipe as written and as parsed, which differ if it lacks fields added later."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    written = hashlib.sha256(text.encode()).hexdigest()[:12]
    try:
        return {written, Recipe.model_validate(tree).hash}
    except ValidationError:
        return {written}


def _orphans(cache_dir: Path, n_shards: int) -> Iterator[Finding]:
    """Yield findings for files in shards/ that belong to no shard."""
    ours = {path(cache_dir, i) for i in range(n_shards) for path in (shard_path, bad_path)}
    for path in sorted((cache_dir / "shards").glob("*")):
        if path in ours or PARTIAL.fullmatch(f"shards/{path.name}"):
            continue
        if STAGED.fullmatch(f"shards/{path.name}") and is_plain(path):
            yield Finding(
                f"{path} is unused: the listing has only {things(n_shards, 'shard', 'shards')}.",
                f"Delete it (--repair does): rm {path}",
                path.unlink,
                f"deleted {path.name}, which has no listed items",
            )
        else:
            yield Finding(f"{path} is not a file of the cache.", f"Move it elsewhere: mv {path} ELSEWHERE")


def described(error: Exception) -> tuple[str, str]:
    """Split an error message into its first sentence, which states the problem, and the rest, which states the fix."""
    message = str(error)
    start = max(message.find(", but "), 0)
    problem, _, repair = message[start:].partition(". ")
    problem = f"{message[:start]}{problem}".rstrip(".")
    return f"{problem}.", repair or "Restore the file from a copy, or embed into a new folder."
