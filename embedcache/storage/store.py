"""Writing and reading the files of a cache. Each is written under a temporary name and renamed; the manifest is last.

docs/cache_format.md describes every file. No file contains the time of the run, or a path other than those of the
source, so a run that was killed and resumed leaves the same bytes as an uninterrupted one.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.hashes import file_sha256, hash_rows, hash_table
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.files import CacheError as CacheError
from frostbench.embedcache.storage.files import read_json as read_json
from frostbench.embedcache.storage.files import write_json as write_json
from frostbench.embedcache.storage.files import write_parquet as write_parquet
from frostbench.embedcache.storage.layout import bounds, shard_sizes
from frostbench.embedcache.storage.listing import check_unique as check_unique
from frostbench.embedcache.storage.listing import effective_groups, read_item_columns, rows_of
from frostbench.embedcache.storage.listing import read_items as read_items
from frostbench.embedcache.storage.listing import write_items as write_items
from frostbench.embedcache.storage.own import SHARD_FILE
from frostbench.embedcache.storage.own import partial_files as partial_files
from frostbench.embedcache.storage.sealing import seals_of
from frostbench.embedcache.storage.vectors import LITTLE

FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
METADATA_KEY = b"embedcache"
FILES = frozenset(
    {"cache.json", "items.parquet", "manifest.json", "lock", "lock.json"}
    | {"shards", "splits", "maps", "views", "views.parquet", "parts", "update"}
)
"""Names of all files and folders in a cache; `views.parquet` exists only in a view set."""
NO_TOKENS: Mapping[str, int] = MappingProxyType({})
RESERVED = ("id", "sha256", "label", "group")
DECODER = "numpy.frombuffer(b''.join(values), {kind!r}).reshape(-1, dim)"


def shard_name(i: int) -> str:
    """Return the name of shard i.

    >>> shard_name(7)
    'part-00007'
    """
    return f"part-{i:05d}"


def shard_path(cache_dir: Path, i: int) -> Path:
    """Return the path of shard i's Parquet file."""
    return cache_dir / "shards" / f"{shard_name(i)}.parquet"


def bad_path(cache_dir: Path, i: int) -> Path:
    """Return the path of shard i's quarantine: listed items that could not be embedded, with reasons."""
    return cache_dir / "shards" / f"{shard_name(i)}.bad.json"


def describe_columns(
    columns: Mapping[str, Recipe], dims: Mapping[str, int], tokens: Mapping[str, int] = NO_TOKENS
) -> dict[str, Any]:
    """Return the `columns` entry of cache.json and of every shard: recipe, its hash, dimension and tokens."""
    return {
        name: {"recipe": recipe.model_dump(mode="json"), "recipe_hash": recipe.hash, "dim": dims[name]}
        | ({"tokens": tokens[name]} if name in tokens else {})
        for name, recipe in columns.items()
    }


def write_shard(
    cache_dir: Path,
    i: int,
    ids: Sequence[str],
    content: Sequence[bytes],
    vectors: Mapping[str, np.ndarray],
    bad: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Recipe],
    dims: Mapping[str, int],
    tokens: Mapping[str, int] = NO_TOKENS,
) -> None:
    """Write shard i: first the quarantine, then the rows. The shard is complete once its Parquet file exists.

    Args:
        cache_dir: the cache.
        i: number of the shard.
        ids: [n] ids of the embedded rows, in listing order.
        content: [n] SHA-256 digests of the rows' files, 32 bytes each.
        vectors: vectors by column, float16 or float32 as the recipe states, [n, D], or [n, T, D] for tokens.
        bad: {id, path, reason, sha256} of each item that was not embedded; sha256 is None if its file was not read or
            is to be retried.
        columns: recipe of each column.
        dims: D of each column.
        tokens: T of each token column.

    Raises:
        CacheError: a column name is reserved, shapes or dtypes do not match, or a vector is not finite.
    """
    for name in columns:
        if name in RESERVED or name not in vectors:
            raise CacheError(f"A column needs vectors and a name other than {RESERVED}, got {name!r}. Rename it.")
        shape = (tokens[name], dims[name]) if name in tokens else (dims[name],)
        _check_vectors(name, vectors[name], ids, shape, columns[name].storage)
    arrays = [pa.array(ids, pa.string()), pa.array(content, pa.binary(32)), *(_as_binary(vectors[n]) for n in columns)]
    write_json(bad_path(cache_dir, i), list(bad))
    write_parquet(
        shard_path(cache_dir, i), pa.Table.from_arrays(arrays, schema=_schema(len(ids), columns, dims, tokens))
    )


def _schema(n: int, columns: Mapping[str, Recipe], dims: Mapping[str, int], tokens: Mapping[str, int]) -> pa.Schema:
    kinds = sorted({recipe.storage for recipe in columns.values()})
    about = {
        "format_version": FORMAT_VERSION,
        "n": n,
        "dtype": " and ".join(kinds),
        "decoder": " or ".join(DECODER.format(kind=LITTLE[kind]) for kind in kinds),
        "columns": describe_columns(columns, dims, tokens),
    }
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("sha256", pa.binary(32), nullable=False)]
    for name in columns:
        facts = {"dtype": columns[name].storage, "dim": str(dims[name])}
        facts |= {"tokens": str(tokens[name])} if name in tokens else {}
        width = np.dtype(columns[name].storage).itemsize * dims[name] * tokens.get(name, 1)
        fields.append(pa.field(name, pa.binary(width), nullable=False, metadata=facts))
    return pa.schema(fields, metadata={METADATA_KEY: json.dumps(about, sort_keys=True)})


def _check_vectors(name: str, x: np.ndarray, ids: Sequence[str], shape: tuple[int, ...], storage: str) -> None:
    if x.dtype != storage or x.shape != (len(ids), *shape):
        raise CacheError(
            f"Column {name!r} must be {storage} {[len(ids), *shape]}, got {x.dtype} {list(x.shape)}. "
            "Check the dtype and the pooling of the backbone."
        )
    finite = np.isfinite(x).all(axis=tuple(range(1, x.ndim)))
    if not finite.all():
        ending = ", and choose another pooling for numbers beyond 65504, where float16 ends"
        raise CacheError(
            f"Stored vectors must be finite, but column {name!r} of {ids[int(np.argmin(finite))]!r} is not. Check the "
            f"weights of the backbone{ending if storage == 'float16' else ''}."
        )


def _as_binary(x: np.ndarray) -> pa.Array:
    """Return rows [n, …] as a fixed-size binary array that shares their memory."""
    little = np.ascontiguousarray(x, dtype=LITTLE[x.dtype.name])
    return pa.Array.from_buffers(
        pa.binary(little.itemsize * math.prod(x.shape[1:])), len(x), [None, pa.py_buffer(little)]
    )


def finished_shards(cache_dir: Path) -> set[int]:
    """Return the numbers of the shards whose Parquet file exists, which a resumed run skips."""
    found = (SHARD_FILE.fullmatch(path.name) for path in (cache_dir / "shards").glob("part-*.parquet"))
    return {int(match[1]) for match in found if match}


def read_bad(cache_dir: Path, i: int) -> list[dict[str, Any]]:
    """Read the quarantine of shard i: {id, path, reason, sha256} of each row that was not embedded."""
    rows: list[dict[str, Any]] = read_json(bad_path(cache_dir, i))
    return rows


def read_keys(cache_dir: Path, i: int) -> tuple[list[str], list[str]]:
    """Read the ids and SHA-256 hex digests of the rows of shard i, without their vectors."""
    table = pq.read_table(shard_path(cache_dir, i), columns=["id", "sha256"], partitioning=None)
    return table["id"].to_pylist(), [digest.hex() for digest in table["sha256"].to_pylist()]


def read_head(cache_dir: Path, i: int) -> tuple[list[str], list[str], dict[str, Any]]:
    """Read the ids and SHA-256 hex digests of the rows of shard i, and its column metadata."""
    with pq.ParquetFile(shard_path(cache_dir, i), page_checksum_verification=True) as file:
        table, about = file.read(["id", "sha256"]), json.loads(file.schema_arrow.metadata[METADATA_KEY])
    return table["id"].to_pylist(), [digest.hex() for digest in table["sha256"].to_pylist()], about["columns"]


def read_about(cache_dir: Path, i: int) -> dict[str, Any]:
    """Read the metadata of shard i: format version, rows, dtype, decoder, and each column's recipe and dimension."""
    about: dict[str, Any] = json.loads(pq.read_schema(shard_path(cache_dir, i)).metadata[METADATA_KEY])
    return about


def write_manifest(cache_dir: Path) -> None:
    """Count the shards and write manifest.json, which completes the cache.

    Raises:
        CacheError: a shard is missing, or rows and quarantine do not add up to the listing.
    """
    cache = read_json(cache_dir / "cache.json")
    listing = read_item_columns(cache_dir)
    sizes = shard_sizes(cache, len(listing["id"]), cache_dir)
    shards, ids, content = _count_shards(cache_dir, listing["id"], sizes)
    rows = rows_of(listing["id"], ids)
    labels = [listing["label"][row] for row in rows]
    groups = effective_groups([listing["group"][row] for row in rows], content)
    recipe_hashes = {name: column["recipe_hash"] for name, column in cache["columns"].items()}
    manifest = {
        "format_version": FORMAT_VERSION,
        "n_listed": len(listing["id"]),
        "n_ok": len(ids),
        "n_bad": len(listing["id"]) - len(ids),
        "shards": shards,
        "items_sha256": file_sha256(cache_dir / "items.parquet"),
        "content_hash": hash_table(recipe_hashes, hash_rows(ids, content, labels, groups, cache["class_names"])),
    }
    write_json(cache_dir / "manifest.json", manifest | seals_of(cache_dir))


def _count_shards(
    cache_dir: Path, listed: list[str], sizes: Sequence[int]
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Return the manifest entry of each shard, and the ids and digests of all rows."""
    wrong = sorted(set(range(len(sizes))) ^ finished_shards(cache_dir))
    if wrong:
        raise CacheError(
            f"The listing of {len(listed)} items must have {len(sizes)} shards, but {shard_name(wrong[0])} is "
            f"{'missing' if wrong[0] < len(sizes) else 'not one of them'}. "
            + ("Resume the embed command." if wrong[0] < len(sizes) else f"Delete {shard_path(cache_dir, wrong[0])}.")
        )
    shards, all_ids, all_content = [], [], []
    for i, (start, stop) in enumerate(bounds(sizes)):
        ids, content = read_keys(cache_dir, i)
        bad = [row["id"] for row in read_bad(cache_dir, i)]
        _check_counts(shard_name(i), listed[start:stop], ids, bad)
        digest = file_sha256(shard_path(cache_dir, i))
        shards.append({"name": shard_name(i), "rows": len(ids), "bad": len(bad), "sha256": digest})
        all_ids += ids
        all_content += content
    return shards, all_ids, all_content


def _check_counts(name: str, listed: list[str], ok: list[str], bad: list[str]) -> None:
    if len(ok) + len(bad) != len(listed) or set(ok) | set(bad) != set(listed):
        raise CacheError(
            f"Rows and quarantine of {name} must together be its {len(listed)} listed items, got {len(ok)} rows and "
            f"{len(bad)} quarantined. Delete this shard and resume the embed command."
        )
