"""Extraction: a listing and a frozen backbone to a cache on disk, resumable shard by shard."""

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
from frostbench.embedcache.extraction.opening import check_place, open_cache
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
    """Some images could not be embedded, and the caller is strict; everything else is in the cache."""


@dataclass(frozen=True)
class Job:
    """What is embedded, how, and where to: what `extract` was given."""

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
"""What embeds and writes the shards of which something is left to do."""


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

    Batches never cross shards, so a resumed run writes the same bytes as one without a break. An image that cannot be
    embedded is quarantined with its reason. A later call embeds anew the images that changed and the shards that are
    damaged. With `update` it brings the cache to another listing as well, and embeds none but new and changed images.

    With `part` (i, n), only the shards i, i + n, i + 2n … are embedded, beside other processes that embed the other
    parts into the same folder; who finds all shards there at its end writes the manifest. Parts do not look for images
    that changed since they were embedded: a call without parts does.

    Args:
        listing: what to embed.
        backbone: how: one backbone, or several by the prefix of their columns, which share each decoded image.
        cache_dir: folder of the cache; made if needed.
        shard_rows: items in a shard, which is the most that is computed twice after a kill.
        batch: images in one forward pass; by default what suits the backbone's device.
        workers: decoding threads; by default one for each core.
        pixel_limit: largest width × height that is decoded.
        strict: raise after the cache is complete if something is in the quarantine.
        update: bring an existing cache to this listing, where it holds another one.
        part: which of how many parts, counted from 0; None embeds everything.
        engine: who embeds the shards; by default this process. `frostbench.embedcache.extraction.distributed` has
            another.
        stop: asked after each batch; True ends the extraction.

    Yields:
        Started, then BatchDone and ShardDone, then Stopped, or PartFinished (of a part) and Finished (if all is there).

    Raises:
        ValueError: an option is out of its bounds, or no image of a batch has a vector that float16 can hold.
        CacheError: the folder holds a cache of something else, or files that are no cache, or is part of the source, or
            another process is writing there.
        QuarantineError: strict, and not everything was embedded; raised behind Finished.
    """
    members = backbone_group(backbone)
    size = members.batch if batch is None else batch
    threads = usable_cores() if workers is None else workers
    chosen = None if part is None else as_part(*part)
    job = Job(listing, members, cache_dir, shard_rows, size, threads, pixel_limit, update, chosen)
    _check_options(job, engine)
    check_place(cache_dir, listing)
    with write_lock(cache_dir) if chosen is None else part_lock(cache_dir, chosen.name):
        yield from _run(job, engine or embed_shards, strict, stop)


def _run(job: Job, engine: Engine, strict: bool, stop: Callable[[], bool]) -> Iterator[Event]:
    begun = time.perf_counter()
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
        yield PartFinished(str(job.part), started.n_listed, left, time.perf_counter() - begun, n_worked, remarks)
        if left:
            return
    elif not (job.cache_dir / "manifest.json").exists():
        write_manifest(job.cache_dir)
    finished = replace(_finished(job.cache_dir, n_worked, time.perf_counter() - begun), remarks=remarks)
    yield finished
    if strict and finished.n_bad:
        raise QuarantineError(_first_reasons(job.cache_dir, finished, len(layout.shards)))


def _open(job: Job) -> tuple[Started, list[Todo], Layout]:
    """Check everything, drop what does not hold any more, and say what is left to do."""
    part = job.part
    if part is None:
        layout, told = _describe(job, tidy=True)
        todo, stale = reopen(job.cache_dir, layout, job.workers)
    else:
        layout, told = open_shared(job.cache_dir, lambda tidy: _describe(job, tidy))
        todo, stale = reopen_part(job.cache_dir, layout, part)
    own = [size for i, size in enumerate(layout.sizes) if part is None or part.owns(i)]
    n_done = sum(own) - sum(len(shard.again) for shard in todo)
    started = Started(sum(own), n_done, len(own), (*job.listing.warnings, *told, *stale))
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
    """Embed and write shard by shard; images are decoded ahead across their borders."""
    n_done = started.n_done
    everything = (item for shard in todo for item in shard.again)
    lanes = ForwardPool(pool_size_for(job.backbone))
    ahead = (1 + lanes.count) * job.batch + 2 * job.workers
    decoding = decode_ahead(everything, job.backbone, job.pixel_limit, job.workers, ahead=ahead)
    with lanes, closing(decoding) as stream:
        for shard in todo:
            begun, rows = time.perf_counter(), ShardRows(job.backbone)
            for n_behind in rows.embed(islice(stream, len(shard.again)), job.batch, lanes):
                yield BatchDone(n_done + n_behind, started.n_listed)
            n_ok, n_bad = _write(job.cache_dir, shard, rows)
            n_done += len(shard.again)
            seconds = time.perf_counter() - begun
            yield ShardDone(shard.shard, n_ok, n_bad, n_done, seconds, len(shard.again) / seconds, rows.remarks)


def _write(cache_dir: Path, shard: Todo, rows: ShardRows) -> tuple[int, int]:
    """Write a shard, or put the rows into the stored one; rows and quarantined items that it has then."""
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
    told = "; ".join(f"{row['id']}: {row['reason']}" for row in bad)
    return (
        f"strict extraction must embed every image, however: {finished.n_bad} of {finished.n_listed} are in the "
        f"quarantine. The first: {told}. The others are stored in {cache_dir}. Repair the files and run the same "
        "command again, which tries changed files anew; or list the good ones elsewhere and embed them into another "
        "folder."
    )


def _check_options(job: Job, engine: Engine | None) -> None:
    asked = {name: getattr(job, name) for name in ("shard_rows", "batch", "workers", "pixel_limit")}
    wrong = {name: value for name, value in asked.items() if value < 1}
    if wrong:
        named = ", ".join(f"{name.replace('_', '-')} is {value}" for name, value in wrong.items())
        raise ValueError(f"options of extraction must be at least 1, however: {named}. Raise it, or leave it out.")
    if job.part is not None and (job.update or engine is not None):
        other = "an update" if job.update else "an engine that divides the work itself"
        raise ValueError(
            f"parts are embedded side by side by processes of their own, however: part {job.part} and {other} came. "
            "Update a cache without parts first: that embeds new images, too. Or choose one way of dividing."
        )
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ValueError(
            "truncated images must be refused, however: PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set, which fills them "
            "up with grey. Unset it before extracting."
        )
