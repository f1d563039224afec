"""Extraction with Ray Data: actors on one or more machines embed whole shards into a shared folder.

Extraction does not rely on Ray's state: each shard is a file that is written under a temporary name and renamed, so a
shard that is embedded twice after an actor died is still one file, and a rerun embeds only missing shards. Ray's own
checkpoints and writers are not used, because they append results that a rerun computes again (ray-project/ray issues
60983 and 61012).
"""

import logging
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.events import BatchDone, Embedder, ShardDone, Started
from frostbench.embedcache.extraction.extract import Job, embed_shards
from frostbench.embedcache.extraction.opening import check_backbone
from frostbench.embedcache.extraction.reopening import Todo
from frostbench.embedcache.items import Listing
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.storage.files import write_parquet
from frostbench.embedcache.storage.layout import bounds, shard_sizes
from frostbench.embedcache.storage.listing import read_items_between
from frostbench.embedcache.storage.staging import finish_update, scratch
from frostbench.embedcache.storage.store import finished_shards, read_bad, read_json, read_keys

MakeBackbone = Callable[[], Embedder | Mapping[str, Embedder] | BackboneGroup]
"""Function that loads the backbone. It must be importable on every machine; weights are not transferred."""

CAUSE = re.compile(r"[A-Za-z_.]*(Error|Exception): ")
BLOCKS = 1000
"""Maximum number of blocks of work for up to 62 actors; more actors get 16 blocks each."""


class DistributedError(ValueError):
    """Ray is not installed, or an actor failed; finished shards are kept."""


@dataclass(frozen=True)
class RayEngine:
    """Engine of `frostbench.embedcache.extraction.extract.extract` that embeds shards with Ray actors.

    Attributes:
        make: function that loads the backbone in each actor.
        actors: number of actors.
        gpus: GPUs per actor; 0 runs on the CPU.
        cpus: CPUs and decoding threads per actor.
        address: address of a running cluster, such as `auto`; None starts Ray on this machine only.
    """

    make: MakeBackbone
    actors: int = 1
    gpus: float = 0.0
    cpus: int = 1
    address: str | None = None

    def __call__(self, job: Job, todo: list[Todo], started: Started) -> Generator[BatchDone | ShardDone, None, None]:
        """Embed missing shards with actors; then, in this process, changed images of stored shards.

        Raises:
            DistributedError: Ray is not installed, or an actor failed permanently.
        """
        missing = [shard for shard in todo if not shard.is_stored]
        n_done = started.n_done
        if missing:
            for event in self._embed_missing(job, missing, started):
                n_done = event.n_done
                yield event
        rest = [shard for shard in todo if shard.is_stored]
        yield from embed_shards(job, rest, Started(started.n_listed, n_done, started.n_shards, ()))

    def _embed_missing(
        self, job: Job, missing: Sequence[Todo], started: Started
    ) -> Generator[BatchDone | ShardDone, None, None]:
        n_done = started.n_done
        table = _write_todo(job.cache_dir, [shard.shard for shard in missing], started.n_listed)
        with connected(self) as ray:
            try:
                for row in _rows(ray, self, job, table, len(missing)):
                    n_done += row["n_ok"] + row["n_bad"]
                    seconds = row["seconds"]
                    rate = (row["n_ok"] + row["n_bad"]) / seconds if seconds else 0.0
                    remarks = Remarks(**{field.name: int(row[field.name]) for field in fields(Remarks)})
                    yield ShardDone(row["shard"], row["n_ok"], row["n_bad"], n_done, seconds, rate, remarks)
                    yield BatchDone(n_done, started.n_listed)
            except ray.exceptions.RayError as error:
                raise DistributedError(_message(error, job.cache_dir)) from error
        finish_update(job.cache_dir)


class ShardActor:
    """Ray actor that embeds shards one by one into the shared folder."""

    def __init__(self, make: MakeBackbone, cache_dir: str, folder: str, batch: int, workers: int, pixel_limit: int):
        # Paths of a listing may be relative to the working directory of the command.
        os.chdir(folder)
        self._cache_dir, self._backbone = Path(cache_dir), backbone_group(make())
        self._batch, self._workers, self._pixel_limit = batch, workers, pixel_limit
        check_backbone(self._cache_dir, self._backbone)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Embed those of the shards that are not on disk yet, and return only the counts of each shard."""
        counts = [
            self._shard(int(shard), int(start), int(stop))
            for shard, start, stop in zip(rows["shard"], rows["start"], rows["stop"], strict=True)
        ]
        return {name: [shard_counts[name] for shard_counts in counts] for name in counts[0]}

    def _shard(self, shard: int, start: int, stop: int) -> dict[str, Any]:
        if shard in finished_shards(self._cache_dir):
            n_ok, n_bad = len(read_keys(self._cache_dir, shard)[0]), len(read_bad(self._cache_dir, shard))
            return {"shard": shard, "n_ok": n_ok, "n_bad": n_bad, "seconds": 0.0} | asdict(Remarks())
        items = read_items_between(self._cache_dir, start, stop)
        listing = Listing(items, (), (), {})
        rows = max(len(items), 1)
        job = Job(listing, self._backbone, self._cache_dir, rows, self._batch, self._workers, self._pixel_limit)
        events = embed_shards(job, [Todo(shard, items, items, False)], Started(len(items), 0, 1, ()))
        end = [event for event in events if isinstance(event, ShardDone)][-1]
        counts = {"shard": shard, "n_ok": end.n_ok, "n_bad": end.n_bad, "seconds": end.seconds}
        return counts | asdict(end.remarks)


def _write_todo(cache_dir: Path, shards: Sequence[int], n_listed: int) -> Path:
    """Write the work as Parquet: index of each shard, and its range of rows [start, stop) in items.parquet."""
    ranges = bounds(shard_sizes(read_json(cache_dir / "cache.json"), n_listed, cache_dir))
    rows = {"shard": list(shards), "start": [ranges[i][0] for i in shards], "stop": [ranges[i][1] for i in shards]}
    path = scratch(cache_dir) / "todo.parquet"
    write_parquet(path, pa.table(rows))
    return path


def _rows(ray: Any, engine: RayEngine, job: Job, table: Path, n: int) -> Iterator[dict[str, Any]]:
    """Yield the counts of each shard as the actors finish it."""
    arguments = {
        "make": engine.make,
        "cache_dir": str(job.cache_dir.absolute()),
        "folder": str(Path.cwd()),
        "batch": job.batch,
        "workers": engine.cpus,
        "pixel_limit": job.pixel_limit,
    }
    # A dead actor's block is repeated by another actor, which skips shards that are already on disk.
    work = ray.data.read_parquet(str(table.absolute())).repartition(min(n, max(BLOCKS, 16 * engine.actors)))
    work = work.map_batches(
        ShardActor,
        fn_constructor_kwargs=arguments,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(engine.actors, n)),
        num_cpus=engine.cpus,
        num_gpus=engine.gpus,
    )
    yield from work.iter_rows()


@contextmanager
def connected(engine: RayEngine) -> Iterator[Any]:
    """Connect to the given Ray cluster, or start Ray on this machine for the duration of the block.

    Raises:
        DistributedError: Ray is not installed.
    """
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if engine.address is None:
            # Otherwise Ray replaces the address given below by a public one and listens on all interfaces. The variable
            # is read when ray is imported.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        import ray
        import ray.data
    except ImportError as error:
        raise DistributedError(
            "the Ray engine requires Ray, which is not installed. Run: pip install 'frostbench[ray]'. Or leave "
            "--engine out, or divide the work with --shard."
        ) from error
    is_owner = not ray.is_initialized()
    # Ray Data's progress is in Ray's own log files; the command prints its own.
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if is_owner and engine.address is not None:
        ray.init(address=engine.address, log_to_driver=False, logging_level=logging.ERROR)
    elif is_owner:
        ray.init(
            num_cpus=engine.actors * engine.cpus + 1,
            include_dashboard=False,
            object_store_memory=200 * 2**20,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
        )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    try:
        yield ray
    finally:
        if is_owner:
            ray.shutdown()


def _message(error: Exception, cache_dir: Path) -> str:
    """Summarise Ray's report by its first error that is not Ray's own, or by its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    causes = [line for line in lines if CAUSE.match(line) and not line.startswith("ray.")]
    return (
        f"actors must embed every shard, but one failed: {[*causes, *lines][0].rstrip('.')}. Finished shards are kept "
        f"in {cache_dir}. Fix the cause and run the same command again."
    )
