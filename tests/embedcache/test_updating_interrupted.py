"""Updates that are killed, stopped or locked out, and full disks."""

import errno
import os
import shutil
import signal
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from colour_images import Colours, files_of, list_images, make_images, paint, run
from updates import BAD, by_id, change

from frostbench.embedcache.extraction import pipeline
from frostbench.embedcache.extraction.events import Finished, Stopped
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.items import Listing
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import read_table


@pytest.fixture
def little_world(tmp_path: Path) -> Path:
    """Make images 0 to 14 and their cache of three shards, small because it is rebuilt after every kill."""
    make_images(tmp_path / "images", range(15), BAD)
    run(list_images(tmp_path / "images", range(15)), tmp_path / "cache")
    return tmp_path


def change_little(root: Path) -> Listing:
    """Change each kind of shard: 1 is another image, 7 and 8 are gone, 10 and 11 have other text, 15 to 19 are new."""
    make_images(root, range(15, 20), frozenset({17}))
    paint(root / "001.png", 200)
    numbers = [n for n in range(20) if n not in (7, 8)]
    return list_images(
        root, numbers, lambda n: "c" if n == 10 else "ab"[n % 2], lambda n: "other" if n == 11 else f"g{n // 2}"
    )


class Dying:
    """Count disk operations, and kill the process or fill the disk before the chosen one."""

    def __init__(self, at: int, full: bool) -> None:
        self.at, self.full, self.count = at, full, 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at and not self.full:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        places = [(os, "fsync"), (pq, "write_table"), (Path, "replace")]
        places += [] if self.full else [(Path, "unlink"), (Path, "rmdir")]
        for owner, name in places:
            monkeypatch.setattr(owner, name, self._before(getattr(owner, name)))

    def _before(self, real: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.step()
            return real(*arguments, **options)

        return wrapped


def killed(dying: Dying, listing: Listing, cache: Path) -> bool:
    """Embed in a fork that is killed at a step, and return whether it was."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        dying.patch(pytest.MonkeyPatch())
        try:
            run(listing, cache, update=True)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def filled(dying: Dying, listing: Listing, cache: Path) -> bool:
    """Embed while the disk becomes full at a step, and return whether that stopped it."""
    with pytest.MonkeyPatch.context() as patch:
        dying.patch(patch)
        try:
            run(listing, cache, update=True)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return True
    return False


def check_survives(listing: Listing, cache: Path, whole: Path, allowed: list[dict[str, Any]]) -> None:
    """Check that the remains are an allowed table or reported as unfinished, and can be completed."""
    if (cache / "manifest.json").exists():
        assert by_id(read_table(cache, verify=True)) in allowed
    else:
        with pytest.raises(
            CacheError, match=r"run the same embed command again|Check that this is the folder of the cache"
        ):
            read_table(cache)
    run(listing, cache, update=True)
    assert files_of(cache) == files_of(whole)


def run_all_deaths(listing: Listing, world: Path, *, full: bool, begun: bool, step: int) -> int:
    """Kill the process at every step of creating or updating a cache, and return the number of steps."""
    old, whole = world / "cache", world / "whole"
    if begun:
        shutil.copytree(old, whole)
    run(listing, whole, update=True)
    allowed = [by_id(read_table(path)) for path in (old, whole)]
    at = 1
    while True:
        cache, dying = world / f"death{at}", Dying(at, full)
        if begun:
            shutil.copytree(old, cache)
        if not (filled if full else killed)(dying, listing, cache):
            return at
        check_survives(listing, cache, whole, allowed[not begun :])
        shutil.rmtree(cache)
        at += step


@pytest.mark.parametrize(("full", "begun", "step"), [(False, True, 31), (True, True, 31), (False, False, 23)])
def test_extraction_survives_a_kill_and_a_full_disk(world: Path, full: bool, begun: bool, step: int) -> None:
    assert run_all_deaths(change(world / "images"), world, full=full, begun=begun, step=step) > 40


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_extraction_survives_a_kill_and_a_full_disk_at_every_point(little_world: Path, full: bool, begun: bool) -> None:
    listing = change_little(little_world / "images")
    assert run_all_deaths(listing, little_world, full=full, begun=begun, step=1) > 40


@pytest.mark.parametrize("after", range(1, 5))
def test_a_stopped_update_goes_on_without_the_option(world: Path, after: int) -> None:
    listing = change(world / "images")
    shutil.copytree(world / "cache", world / "updated")
    run(listing, world / "updated", batch=2, update=True)
    stop_calls, backbone = iter(range(1, 100)), Colours()
    events = run(listing, world / "cache", backbone, batch=2, update=True, stop=lambda: next(stop_calls) == after)
    first = backbone.embedded
    assert isinstance(events[-1], Stopped)
    run(listing, world / "cache", backbone, batch=2)
    # Both runs embed the canary and the batches of the unfinished shard.
    assert first + 1 <= backbone.embedded <= 6 + 1 + 5
    assert files_of(world / "cache") == files_of(world / "updated")


@pytest.mark.parametrize("kind", [RuntimeError, BrokenExecutor])
def test_a_decoding_worker_that_dies_is_an_error_and_the_cache_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    make_images(tmp_path / "images", range(23), BAD)
    listing = list_images(tmp_path / "images", range(23))
    run(listing, tmp_path / "whole")
    real = pipeline.decode_item

    def dying(item: Any, *arguments: Any) -> Any:
        if item.id == "012.png":
            raise kind("a worker died")
        return real(item, *arguments)

    monkeypatch.setattr(pipeline, "decode_item", dying)
    with pytest.raises(kind, match="a worker died"):
        run(listing, tmp_path / "cache")
    monkeypatch.undo()
    assert not (tmp_path / "cache/manifest.json").exists()
    backbone = Colours()
    run(listing, tmp_path / "cache", backbone)
    assert backbone.embedded == 12
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_two_extractions_do_not_write_one_cache(world: Path) -> None:
    listing = list_images(world / "images", range(23))
    first = extract(listing, Colours(), world / "other", shard_rows=5)
    next(first)
    with pytest.raises(CacheError, match=f"but process {os.getpid()} on .* is writing"):
        run(listing, world / "other")
    first.close()
    run(listing, world / "other")
    assert files_of(world / "other") == files_of(world / "cache")


def test_the_updates_of_two_listings_meet_in_the_lock(world: Path) -> None:
    events = extract(change(world / "images"), Colours(), world / "cache", shard_rows=5, update=True)
    next(events)
    with pytest.raises(CacheError, match="one process at a time may write a cache"):
        run(list_images(world / "images", range(5)), world / "cache", update=True)
    assert isinstance(list(events)[-1], Finished)
    assert not (world / "cache/lock.json").exists()
