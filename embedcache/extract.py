"""Extraction: a listing and a frozen backbone to a cache on disk, resumable shard by shard."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import ImageFile

from embedcache.backbones.backbone import NotFiniteError
from embedcache.decode import PIXEL_LIMIT
from embedcache.events import BatchDone, Embedder, Event, Finished, ShardDone, Started, Stopped
from embedcache.items import Item, Listing, escape_name
from embedcache.opening import open_cache
from embedcache.pipeline import Decoded, Failed, Outcome, decode_ahead, usable_cores
from embedcache.store import finished_shards, read_bad, read_json, write_manifest, write_shard

LARGEST = 65504.0
"""The largest finite float16."""


class QuarantineError(ValueError):
    """Some images could not be embedded, and the caller is strict; everything else is in the cache."""


def extract(
    listing: Listing,
    backbone: Embedder,
    cache_dir: Path,
    *,
    shard_rows: int = 4096,
    batch: int | None = None,
    workers: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
    strict: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Embed a listing into a cache; a second call continues where the first was stopped or killed.

    Shards are cut by listing order and batches never cross them, so that a resumed run writes the same bytes as one
    without a break. An image that cannot be embedded is put into the quarantine with its reason.

    Args:
        listing: what to embed.
        backbone: how.
        cache_dir: folder of the cache; made if needed.
        shard_rows: items in a shard, which is the most that is computed twice after a kill.
        batch: images in one forward pass; by default what suits the backbone's device.
        workers: decoding threads; by default one for each core.
        pixel_limit: largest width × height that is decoded.
        strict: raise after the cache is complete if something is in the quarantine.
        stop: asked after each batch; True ends the extraction.

    Yields:
        Started, then BatchDone and ShardDone, then Finished or Stopped.

    Raises:
        ValueError: an option is out of its bounds, or a vector is not finite or too large for float16; names the item.
        CacheError: the folder holds a cache of something else.
        QuarantineError: strict, and not everything was embedded; raised behind Finished.
    """
    size = backbone.batch if batch is None else batch
    threads = usable_cores() if workers is None else workers
    _check_options({"shard_rows": shard_rows, "batch": size, "workers": threads, "pixel_limit": pixel_limit})
    begun = time.perf_counter()
    warnings = open_cache(cache_dir, listing, backbone, shard_rows=shard_rows, batch=size, pixel_limit=pixel_limit)
    todo = _unfinished(cache_dir, listing.items, shard_rows)
    n_listed, n_todo = len(listing.items), sum(map(len, todo.values()))
    yield Started(n_listed, n_listed - n_todo, -(-n_listed // shard_rows), (*listing.warnings, *warnings))
    everything = (item for shard in todo.values() for item in shard)
    stream = decode_ahead(everything, backbone, pixel_limit, threads, ahead=2 * size + 2 * threads)
    with closing(stream):
        for event in _embed_shards(todo, stream, backbone, cache_dir, n_listed, size):
            yield event
            if isinstance(event, BatchDone) and stop():
                yield Stopped(
                    n_listed, n_listed - sum(map(len, _unfinished(cache_dir, listing.items, shard_rows).values()))
                )
                return
    write_manifest(cache_dir)
    finished = _finished(cache_dir, n_todo, time.perf_counter() - begun)
    yield finished
    if strict and finished.n_bad:
        raise QuarantineError(_first_reasons(cache_dir, finished, -(-n_listed // shard_rows)))


def _unfinished(cache_dir: Path, items: Sequence[Item], shard_rows: int) -> dict[int, Sequence[Item]]:
    finished = finished_shards(cache_dir)
    shards = enumerate(items[start : start + shard_rows] for start in range(0, len(items), shard_rows))
    return {i: shard for i, shard in shards if i not in finished}


def _embed_shards(
    todo: dict[int, Sequence[Item]],
    stream: Iterator[Outcome],
    backbone: Embedder,
    cache_dir: Path,
    n_listed: int,
    batch: int,
) -> Iterator[BatchDone | ShardDone]:
    """Embed and write shard by shard; the stream decodes ahead across their borders."""
    n_done = n_listed - sum(map(len, todo.values()))
    for i, shard in todo.items():
        begun, rows = time.perf_counter(), _Rows(backbone)
        for n_behind in rows.embed(islice(stream, len(shard)), batch):
            yield BatchDone(n_done + n_behind, n_listed)
        rows.write(cache_dir, i)
        n_done += len(shard)
        seconds = time.perf_counter() - begun
        yield ShardDone(i, len(rows.ids), len(rows.bad), n_done, seconds, len(shard) / seconds)


class _Rows:
    """The rows of one shard while they are computed; an id, its digest and its vectors are appended together."""

    def __init__(self, backbone: Embedder) -> None:
        self._backbone = backbone
        self.ids: list[str] = []
        self._digests: list[bytes] = []
        self._vectors: dict[str, list[np.ndarray]] = {name: [] for name in backbone.recipes}
        self.bad: list[dict[str, str]] = []

    def embed(self, outcomes: Iterator[Outcome], batch: int) -> Iterator[int]:
        """Embed in batches of good images, and say after each how many items of the shard are behind it."""
        waiting: list[Decoded] = []
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                self.bad.append(_quarantined(outcome))
                continue
            waiting.append(outcome)
            if len(waiting) == batch:
                self._append(waiting)
                waiting = []
                yield len(self.ids) + len(self.bad)
        if waiting:
            self._append(waiting)
            yield len(self.ids) + len(self.bad)

    def _append(self, batch: Sequence[Decoded]) -> None:
        ids = [one.item.id for one in batch]
        vectors = _embed_named(self._backbone, torch.stack([one.image for one in batch]), ids)
        for name, parts in self._vectors.items():
            parts.append(_as_float16(vectors[name], name, ids))
        self.ids += ids
        self._digests += [one.sha256 for one in batch]

    def write(self, cache_dir: Path, i: int) -> None:
        """Write the shard."""
        recipes, dims = dict(self._backbone.recipes), dict(self._backbone.dims)
        vectors = {
            name: np.concatenate([np.empty((0, dims[name]), np.float16), *parts])
            for name, parts in self._vectors.items()
        }
        write_shard(cache_dir, i, self.ids, self._digests, vectors, self.bad, recipes, dims)


def _embed_named(backbone: Embedder, images: torch.Tensor, ids: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        return {name: value.cpu().numpy() for name, value in backbone.embed(images).items()}
    except NotFiniteError as error:
        named = ", ".join(repr(ids[row]) for row in error.rows[:3])
        raise ValueError(f"{error} The images are {named}.") from error


def _as_float16(vectors: np.ndarray, name: str, ids: Sequence[str]) -> np.ndarray:
    largest = np.abs(vectors).max(axis=1)
    if (largest > LARGEST).any():
        row = int(largest.argmax())
        raise ValueError(
            f"stored vectors are float16, which ends at {LARGEST:.0f}, however: column {name!r} of {ids[row]!r} "
            f"reaches {largest[row]:.0f}. This pooling of this model cannot be stored; choose another."
        )
    return vectors.astype(np.float16)


def _quarantined(failed: Failed) -> dict[str, str]:
    path = escape_name(os.fspath(failed.item.path or ""))
    return {"id": failed.item.id, "path": path, "reason": failed.reason}


def _finished(cache_dir: Path, n_worked: int, seconds: float) -> Finished:
    manifest = read_json(cache_dir / "manifest.json")
    return Finished(manifest["n_listed"], manifest["n_ok"], manifest["n_bad"], seconds, n_worked / seconds)


def _first_reasons(cache_dir: Path, finished: Finished, n_shards: int) -> str:
    bad = islice((row for i in range(n_shards) for row in read_bad(cache_dir, i)), 5)
    told = "; ".join(f"{row['id']}: {row['reason']}" for row in bad)
    return (
        f"strict extraction must embed every image, however: {finished.n_bad} of {finished.n_listed} are in the "
        f"quarantine. The first: {told}. Repair or unlist them; the others are stored in {cache_dir}."
    )


def _check_options(asked: dict[str, int]) -> None:
    wrong = {name: value for name, value in asked.items() if value < 1}
    if wrong:
        raise ValueError(f"options of extraction must be at least 1, however: {wrong}. Raise them.")
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ValueError(
            "truncated images must be refused, however: PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set, which fills them "
            "up with grey. Unset it before extracting."
        )
