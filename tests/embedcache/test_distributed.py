import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from dying_colours import DyingColours, FailingColours
from PIL import Image

from frostbench.embedcache.extraction.distributed import DistributedError, RayEngine, connected
from frostbench.embedcache.extraction.events import BatchDone, Finished, ShardDone, Started, Stopped
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.storage.listing import read_items, read_items_between, write_items

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def make_folder(root: Path, n: int) -> Listing:
    for i in range(n):
        path = root / "ab"[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if i == 3:
            path.write_bytes(b"<html>not found</html>")
        else:
            Image.new("RGB", (8, 8), (i, 255 - i, 7)).save(path)
    return list_folder(root)


def files_of(cache: Path) -> dict[str, bytes]:
    found = {path.relative_to(cache).as_posix(): path for path in cache.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}


def finished_one(folder: Path) -> Callable[[], bool]:
    return lambda: (folder / "cache" / "shards" / "part-00000.parquet").exists()


def listening() -> set[str]:
    """Return the addresses on which this process and its children, including Ray's daemons, listen."""
    own = psutil.Process()
    found = [one.net_connections(kind="inet") for one in (own, *own.children(recursive=True))]
    return {one.laddr.ip for some in found for one in some if one.status == psutil.CONN_LISTEN}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_two_actors_of_which_one_dies_write_the_cache_that_one_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "shared"))
    listing = make_folder(tmp_path / "images", 42)
    list(extract(listing, DyingColours(), tmp_path / "alone", shard_rows=6))
    stopped = extract(listing, DyingColours(), tmp_path / "cache", shard_rows=6, stop=finished_one(tmp_path))
    assert isinstance(list(stopped)[-1], Stopped)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "shards").glob("*.parquet")}
    assert len(kept) == 1

    engine = RayEngine(partial(DyingColours, tmp_path / "died"), actors=2)
    with connected(engine) as ray:
        assert {where for where in listening() if where not in LOOPBACK} == set()
        events = list(extract(listing, DyingColours(), tmp_path / "cache", shard_rows=6, engine=engine))
        failing = RayEngine(FailingColours, actors=1)
        with pytest.raises(DistributedError, match=r"no memory left for a batch.*run the same command again"):
            list(extract(listing, DyingColours(), tmp_path / "failed", shard_rows=21, engine=failing))
    assert not ray.is_initialized()
    assert int((tmp_path / "died").read_text()) != os.getpid()
    assert isinstance(events[0], Started)
    assert events[0].n_done == 6
    assert {event.shard for event in events if isinstance(event, ShardDone)} == {1, 2, 3, 4, 5, 6}
    assert [event.n_done for event in events if isinstance(event, BatchDone)][-1] == 42
    assert isinstance(events[-1], Finished)
    assert (events[-1].n_ok, events[-1].n_bad) == (41, 1)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "alone")


def test_without_ray_the_line_that_installs_it_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    listing = make_folder(tmp_path / "images", 2)
    with pytest.raises(DistributedError, match=r"pip install 'frostbench\[ray\]'"):
        list(extract(listing, DyingColours(), tmp_path / "cache", engine=RayEngine(DyingColours)))


def test_a_part_of_a_listing_is_read_as_the_whole_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frostbench.embedcache.storage.files.ROWS_PER_GROUP", 5)
    write_items(tmp_path, make_folder(tmp_path / "images", 18).items)
    everything = read_items(tmp_path)
    for start, stop in ((0, 18), (0, 5), (4, 6), (7, 7), (5, 15), (17, 18)):
        assert read_items_between(tmp_path, start, stop) == everything[start:stop]
