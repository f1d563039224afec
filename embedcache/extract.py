"""Extraction: a listing and a frozen backbone to a cache on disk, resumable shard by shard."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from PIL import ImageFile

from embedcache.decode import PIXEL_LIMIT
from embedcache.events import BatchDone, Embedder, Event, Finished, ShardDone, Started, Stopped
from embedcache.items import Item, Listing
from embedcache.opening import open_cache
from embedcache.pipeline import decode_ahead, usable_cores
from embedcache.reopening import drop_stale
from embedcache.shard_rows import ShardRows
from embedcache.store import finished_shards, read_bad, read_json, write_manifest
from embedcache.together import Together, together


class QuarantineError(ValueError):
    """Some images could not be embedded, and the caller is strict; everything else is in the cache."""


@dataclass(frozen=True)
class _Job:
    """What is embedded, how, and where to."""

    listing: Listing
    backbone: Together
    cache_dir: Path
    shard_rows: int
    batch: int
    workers: int
    pixel_limit: int

    def unfinished(self) -> dict[int, Sequence[Item]]:
        """The items of each shard that is not on disk."""
        items, finished = self.listing.items, finished_shards(self.cache_dir)
        shards = enumerate(items[start : start + self.shard_rows] for start in range(0, len(items), self.shard_rows))
        return {i: shard for i, shard in shards if i not in finished}


def extract(
    listing: Listing,
    backbone: Embedder | Mapping[str, Embedder],
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

    Batches never cross shards, so a resumed run writes the same bytes as one without a break. An image that cannot be
    embedded is quarantined with its reason. A later call embeds shards anew that are damaged or whose images changed.

    Args:
        listing: what to embed.
        backbone: how: one backbone, or several by the prefix of their columns, which share each decoded image.
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
        ValueError: an option is out of its bounds, or no image of a batch has a vector that float16 can hold.
        CacheError: the folder holds a cache of something else, or files that are no cache, or is part of the source.
        QuarantineError: strict, and not everything was embedded; raised behind Finished.
    """
    members = together(backbone)
    size = members.batch if batch is None else batch
    threads = usable_cores() if workers is None else workers
    yield from _run(_Job(listing, members, cache_dir, shard_rows, size, threads, pixel_limit), strict, stop)


def _run(job: _Job, strict: bool, stop: Callable[[], bool]) -> Iterator[Event]:
    begun = time.perf_counter()
    started, todo = _open(job)
    yield started
    with closing(_embed_shards(job, todo)) as events:
        for event in events:
            yield event
            if isinstance(event, BatchDone) and stop():
                n_todo = sum(map(len, job.unfinished().values()))
                yield Stopped(started.n_listed, started.n_listed - n_todo)
                return
    if not (job.cache_dir / "manifest.json").exists():
        write_manifest(job.cache_dir)
    finished = _finished(job.cache_dir, started.n_listed - started.n_done, time.perf_counter() - begun)
    yield finished
    if strict and finished.n_bad:
        raise QuarantineError(_first_reasons(job.cache_dir, finished, started.n_shards))


def _open(job: _Job) -> tuple[Started, dict[int, Sequence[Item]]]:
    """Check everything, drop what does not hold any more, and say what is left to do."""
    _check_options(job)
    listing, n_listed = job.listing, len(job.listing.items)
    environment = open_cache(
        job.cache_dir,
        listing,
        job.backbone,
        shard_rows=job.shard_rows,
        batch=job.batch,
        pixel_limit=job.pixel_limit,
    )
    stale = drop_stale(job.cache_dir, listing.items, job.shard_rows, job.workers)
    todo = job.unfinished()
    n_done = n_listed - sum(map(len, todo.values()))
    return Started(n_listed, n_done, -(-n_listed // job.shard_rows), (*listing.warnings, *environment, *stale)), todo


def _embed_shards(job: _Job, todo: dict[int, Sequence[Item]]) -> Generator[BatchDone | ShardDone, None, None]:
    """Embed and write shard by shard; images are decoded ahead across their borders."""
    n_listed = len(job.listing.items)
    n_done = n_listed - sum(map(len, todo.values()))
    everything = (item for shard in todo.values() for item in shard)
    ahead = 2 * job.batch + 2 * job.workers
    with closing(decode_ahead(everything, job.backbone, job.pixel_limit, job.workers, ahead=ahead)) as stream:
        for i, shard in todo.items():
            begun, rows = time.perf_counter(), ShardRows(job.backbone)
            for n_behind in rows.embed(islice(stream, len(shard)), job.batch):
                yield BatchDone(n_done + n_behind, n_listed)
            rows.write(job.cache_dir, i)
            n_done += len(shard)
            seconds = time.perf_counter() - begun
            yield ShardDone(i, len(rows.ids), len(rows.bad), n_done, seconds, len(shard) / seconds)


def _finished(cache_dir: Path, n_worked: int, seconds: float) -> Finished:
    manifest = read_json(cache_dir / "manifest.json")
    rate = n_worked / seconds if n_worked else 0.0
    return Finished(manifest["n_listed"], manifest["n_ok"], manifest["n_bad"], seconds, rate, n_worked)


def _first_reasons(cache_dir: Path, finished: Finished, n_shards: int) -> str:
    bad = islice((row for i in range(n_shards) for row in read_bad(cache_dir, i)), 5)
    told = "; ".join(f"{row['id']}: {row['reason']}" for row in bad)
    return (
        f"strict extraction must embed every image, however: {finished.n_bad} of {finished.n_listed} are in the "
        f"quarantine. The first: {told}. The others are stored in {cache_dir}. Repair the files and run the same "
        "command again, which tries changed files anew; or list the good ones elsewhere and embed them into another "
        "folder."
    )


def _check_options(job: _Job) -> None:
    asked = {name: getattr(job, name) for name in ("shard_rows", "batch", "workers", "pixel_limit")}
    wrong = {name: value for name, value in asked.items() if value < 1}
    if wrong:
        raise ValueError(f"options of extraction must be at least 1, however: {wrong}. Raise them.")
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ValueError(
            "truncated images must be refused, however: PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set, which fills them "
            "up with grey. Unset it before extracting."
        )
