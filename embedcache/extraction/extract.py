"""Extraction of a listing with frozen backbones into a cache, resumable shard by shard."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from PIL import ImageFile

from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.events import (
    BatchDone,
    Embedder,
    Event,
    Finished,
    PartFinished,
    ShardDone,
    Started,
    Stopped,
)
from frostbench.embedcache.extraction.forward_pool import ForwardPool, pool_size_for
from frostbench.embedcache.extraction.opening import check_cache_folder, open_cache
from frostbench.embedcache.extraction.parts import Part, as_part, finish_part, open_shared, reopen_part
from frostbench.embedcache.extraction.pipeline import decode_ahead, usable_cores
from frostbench.embedcache.extraction.reopening import Todo, reopen
from frostbench.embedcache.extraction.shard_rows import ShardRows
from frostbench.embedcache.items import Listing
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.storage.layout import Layout
from frostbench.embedcache.storage.locking import part_lock, write_lock
from frostbench.embedcache.storage.merging import replace_rows
from frostbench.embedcache.storage.store import read_bad, read_json, write_manifest


class QuarantineError(ValueError):
    """Some images could not be embedded in strict mode; the cache holds all other images."""


@dataclass(frozen=True)
class Job:
    """Arguments of one extraction, see `extract`."""

    listing: Listing
    backbone: BackboneGroup
    cache_dir: Path
    shard_rows: int
    batch: int
    workers: int
    pixel_limit: int
    update: bool = False
    part: Part | None = None


ShardEvents = Generator[BatchDone | ShardDone, None, None]
Engine = Callable[[Job, list[Todo], Started], ShardEvents]
"""Function that embeds and writes unfinished shards."""


def extract(
    listing: Listing,
    backbone: Embedder | Mapping[str, Embedder] | BackboneGroup,
    cache_dir: Path,
    *,
    shard_rows: int = 4096,
    batch: int | None = None,
    workers: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
    strict: bool = False,
    update: bool = False,
    part: tuple[int, int] | None = None,
    engine: Engine | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Embed a listing into a cache; a second call continues where the first was stopped or killed.

    Batches never cross shards, so a resumed run writes the same bytes as an uninterrupted one. An image that cannot be
    embedded is quarantined with its reason. A later call re-embeds changed images and damaged shards. With `update`, it
    also adapts the cache to a different listing, embedding only new and changed images.

    With `part` (i, n), only the shards i, i + n, i + 2n … are embedded, while other processes embed the other parts
    into the same folder; the process that finds all shards finished writes the manifest. Only a call without parts
    checks whether images changed since they were embedded.

    Args:
        listing: items to embed.
        backbone: one backbone, or several by the prefix of their columns, which share each decoded image.
        cache_dir: cache folder; created if needed.
        shard_rows: number of items in a shard, the most that is computed twice after a kill.
        batch: number of images in one forward pass; None uses the default of the backbone.
        workers: number of decoding threads; None uses one per core.
        pixel_limit: largest width × height that is decoded.
        strict: whether to raise an error after the cache is complete if there are quarantined items.
        update: whether to adapt an existing cache to this listing.
        part: index of the part, counted from 0, and number of parts; None embeds everything.
        engine: function that embeds the shards, such as `frostbench.embedcache.extraction.distributed.RayEngine`; None
            embeds in this process.
        stop: function called after each batch; returning True stops the extraction.

    Yields:
        Started, then BatchDone and ShardDone, then Stopped, or PartFinished (with `part`) and Finished (if complete).

    Raises:
        ValueError: an option is out of bounds, or no image of a batch has a vector that fits into float16.
        CacheError: the folder holds a different cache or other files, overlaps with the source, or is being written by
            another process.
        QuarantineError: strict is set and some items are quarantined; raised after Finished.
    """
    members = backbone_group(backbone)
    size = members.batch if batch is None else batch
    threads = usable_cores() if workers is None else workers
    shared = None if part is None else as_part(*part)
    job = Job(listing, members, cache_dir, shard_rows, size, threads, pixel_limit, update, shared)
    _check_options(job, engine)
    check_cache_folder(cache_dir, listing)
    with write_lock(cache_dir) if shared is None else part_lock(cache_dir, shared.name):
        yield from _run(job, engine or embed_shards, strict, stop)


def _run(job: Job, engine: Engine, strict: bool, stop: Callable[[], bool]) -> Iterator[Event]:
    started_at = time.perf_counter()
    started, todo, layout = _open(job)
    yield started
    n_done, remarks = started.n_done, Remarks()
    with closing(engine(job, todo, started)) as events:
        for event in events:
            yield event
            if isinstance(event, ShardDone):
                n_done, remarks = event.n_done, remarks + event.remarks
            elif stop():
                yield Stopped(started.n_listed, n_done)
                return
    n_worked = started.n_listed - started.n_done
    if job.part is not None:
        left = finish_part(job.cache_dir, layout)
        yield PartFinished(str(job.part), started.n_listed, left, time.perf_counter() - started_at, n_worked, remarks)
        if left:
            return
    elif not (job.cache_dir / "manifest.json").exists():
        write_manifest(job.cache_dir)
    finished = replace(_finished(job.cache_dir, n_worked, time.perf_counter() - started_at), remarks=remarks)
    yield finished
    if strict and finished.n_bad:
        raise QuarantineError(_first_reasons(job.cache_dir, finished, len(layout.shards)))


def _open(job: Job) -> tuple[Started, list[Todo], Layout]:
    """Open the cache, delete damaged shards, and return the work that is left."""
    part = job.part
    if part is None:
        layout, notes = _describe(job, tidy=True)
        todo, stale = reopen(job.cache_dir, layout, job.workers)
    else:
        layout, notes = open_shared(job.cache_dir, lambda tidy: _describe(job, tidy))
        todo, stale = reopen_part(job.cache_dir, layout, part)
    sizes = [size for i, size in enumerate(layout.sizes) if part is None or part.owns(i)]
    n_done = sum(sizes) - sum(len(shard.again) for shard in todo)
    started = Started(sum(sizes), n_done, len(sizes), (*job.listing.warnings, *notes, *stale))
    return started, todo, layout


def _describe(job: Job, tidy: bool) -> tuple[Layout, list[str]]:
    return open_cache(
        job.cache_dir,
        job.listing,
        job.backbone,
        shard_rows=job.shard_rows,
        batch=job.batch,
        pixel_limit=job.pixel_limit,
        update=job.update,
        tidy=tidy,
    )


def embed_shards(job: Job, todo: list[Todo], started: Started) -> ShardEvents:
    """Embed and write shard by shard, while images of the next shards are decoded ahead."""
    n_done = started.n_done
    items = (item for shard in todo for item in shard.again)
    pool = ForwardPool(pool_size_for(job.backbone))
    ahead = (1 + pool.count) * job.batch + 2 * job.workers
    decoding = decode_ahead(items, job.backbone, job.pixel_limit, job.workers, ahead=ahead)
    with pool, closing(decoding) as stream:
        for shard in todo:
            started_at, rows = time.perf_counter(), ShardRows(job.backbone)
            for n_in_shard in rows.embed(islice(stream, len(shard.again)), job.batch, pool):
                yield BatchDone(n_done + n_in_shard, started.n_listed)
            n_ok, n_bad = _write(job.cache_dir, shard, rows)
            n_done += len(shard.again)
            seconds = time.perf_counter() - started_at
            yield ShardDone(shard.shard, n_ok, n_bad, n_done, seconds, len(shard.again) / seconds, rows.remarks)


def _write(cache_dir: Path, shard: Todo, rows: ShardRows) -> tuple[int, int]:
    """Write a shard, or replace rows of the stored one, and return its numbers of rows and quarantined items."""
    if shard.is_stored:
        return replace_rows(cache_dir, shard.shard, shard.listed, shard.again, rows.write)
    rows.write(cache_dir, shard.shard)
    return len(rows.ids), len(rows.bad)


def _finished(cache_dir: Path, n_worked: int, seconds: float) -> Finished:
    manifest = read_json(cache_dir / "manifest.json")
    rate = n_worked / seconds if n_worked else 0.0
    return Finished(manifest["n_listed"], manifest["n_ok"], manifest["n_bad"], seconds, rate, n_worked)


def _first_reasons(cache_dir: Path, finished: Finished, n_shards: int) -> str:
    bad = islice((row for i in range(n_shards) for row in read_bad(cache_dir, i)), 5)
    reasons = "; ".join(f"{row['id']}: {row['reason']}" for row in bad)
    return (
        f"strict extraction must embed every image, but {finished.n_bad} of {finished.n_listed} "
        f"{'is' if finished.n_bad == 1 else 'are'} quarantined. The first: {reasons}. All others are stored in "
        f"{cache_dir}. Repair the files and run the same command again, which retries changed "
        "files; or list only the good files and embed them into another folder."
    )


def _check_options(job: Job, engine: Engine | None) -> None:
    values = {name: getattr(job, name) for name in ("shard_rows", "batch", "workers", "pixel_limit")}
    wrong = ", ".join(f"{name.replace('_', '-')}={value}" for name, value in values.items() if value < 1)
    if wrong:
        raise ValueError(f"options of extraction must be at least 1, got {wrong}. Raise the value, or leave it out.")
    if job.part is not None and (job.update or engine is not None):
        other = "update" if job.update else "an engine"
        raise ValueError(
            f"a part cannot be combined with update or an engine, got part {job.part} and {other}. An update "
            "also embeds new images, so run it without a part. To divide the work, use either parts or an engine."
        )
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ValueError(
            "truncated images must be refused, but PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set, which fills the missing "
            "part with grey. Unset it before extraction."
        )
