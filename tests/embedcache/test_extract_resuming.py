"""After a stop or kill the same command continues, and the cache is byte-identical."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import timm
import torch
from colour_images import Colours, files_of, make_folder, run

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.extraction.events import BatchDone, Finished, ShardDone, Started, Stopped
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.storage.store import finished_shards, read_json


@pytest.mark.parametrize("after", range(1, 7))
def test_stopped_and_resumed_is_byte_identical(tmp_path: Path, after: int) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({3, 4}))
    run(listing, tmp_path / "whole", batch=2)
    stop_calls = iter(range(100))
    events = run(listing, tmp_path / "broken", batch=2, stop=lambda: next(stop_calls) == after)
    assert isinstance(events[-1], Stopped)
    assert events[-1].n_done == 5 * len(finished_shards(tmp_path / "broken"))
    assert not (tmp_path / "broken" / "manifest.json").exists()
    backbone = Colours(embedded=0)
    resumed = run(listing, tmp_path / "broken", backbone, batch=2)
    assert resumed[0].n_done == events[-1].n_done
    assert backbone.embedded <= 1 + 17 - events[-1].n_done
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


def test_a_generator_that_is_dropped_leaves_a_cache_that_resumes(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 17)
    run(listing, tmp_path / "whole")
    events = extract(listing, Colours(), tmp_path / "broken", shard_rows=5)
    assert isinstance(next(events), Started)
    assert isinstance(next(events), BatchDone)
    events.close()
    (tmp_path / "broken" / "shards").mkdir(exist_ok=True)
    (tmp_path / "broken" / "shards" / "part-00009.parquet.77.tmp").write_bytes(b"half")
    run(listing, tmp_path / "broken")
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


def test_a_finished_cache_is_left_as_it_is(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    before, backbone = files_of(tmp_path / "cache"), Colours(embedded=0)
    events = run(listing, tmp_path / "cache", backbone)
    assert [type(e) for e in events] == [Started, Finished]
    assert (events[-1].n_worked, events[-1].images_per_second) == (0, 0.0)
    assert backbone.embedded == 1  # the canary
    assert files_of(tmp_path / "cache") == before


CHILD = """
import sys, time
from pathlib import Path
import torch
from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.sources.folders import list_folder
torch.set_num_threads(1)
images, weights, cache, ready = map(Path, sys.argv[1:])
backbone = load_backbone("timm", "test_resnet", weights=weights, size=64, autocast="float32")
for event in extract(list_folder(images), backbone, cache, shard_rows=6, batch=4):
    if type(event).__name__ == "BatchDone" and len(list(cache.glob("shards/*.parquet"))) == 2:
        (cache / "shards" / "part-00002.parquet.77.tmp").write_bytes(b"half a shard")
        ready.touch()
        time.sleep(600)
"""


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Use one torch thread as in the child, because the order of sums changes the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def kill_in_third_shard(*arguments: Path, ready: Path) -> None:
    """Run CHILD until it has two shards and half of the third, then SIGKILL it."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, *map(str, arguments), str(ready)])
    try:
        until = time.monotonic() + 120
        while not ready.exists():
            assert child.poll() is None, "the child ended before it could be killed"
            assert time.monotonic() < until, "the child did not come to its third shard"
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_killed_and_resumed_is_byte_identical(tmp_path: Path) -> None:
    listing, weights = make_folder(tmp_path / "images", 27, bad=frozenset({5, 20})), tmp_path / "weights.pth"
    torch.save(timm.create_model("test_resnet").state_dict(), weights)
    kill_in_third_shard(tmp_path / "images", weights, tmp_path / "killed", ready=tmp_path / "ready")
    assert finished_shards(tmp_path / "killed") == {0, 1}
    assert not (tmp_path / "killed" / "manifest.json").exists()
    backbone = load_backbone("timm", "test_resnet", weights=weights, size=64, autocast="float32")
    events = list(extract(listing, backbone, tmp_path / "killed", shard_rows=6, batch=4))
    # Finished shards are not computed again, only those after them.
    assert [(e.shard, e.n_ok, e.n_bad) for e in events if isinstance(e, ShardDone)] == [(2, 5, 1), (3, 6, 0), (4, 3, 0)]
    list(extract(listing, backbone, tmp_path / "whole", shard_rows=6, batch=4))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")
    assert read_json(tmp_path / "whole" / "manifest.json")["n_ok"] == 25


def test_a_listing_lost_between_two_writes_is_written_again(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "whole")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "cache.json").write_bytes((tmp_path / "whole" / "cache.json").read_bytes())
    run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_a_folder_with_only_half_written_files_is_empty(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "whole")
    (tmp_path / "cache" / "shards").mkdir(parents=True)
    for name in ("cache.json.77.tmp", "items.parquet.77.tmp", "shards/part-00007.parquet.77-0123abcd.tmp"):
        (tmp_path / "cache" / name).write_bytes(b"half")
    run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")
