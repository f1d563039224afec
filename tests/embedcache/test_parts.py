import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from colour_images import files_of, make_folder
from dying_colours import DyingColours

from frostbench.embedcache.checking.doctor import diagnose
from frostbench.embedcache.extraction.events import Event, Finished, PartFinished, ShardDone, Started
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.parts import parse_part
from frostbench.embedcache.items import Listing
from frostbench.embedcache.storage import locking
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.locking import is_locked, part_lock, write_lock
from frostbench.embedcache.storage.store import shard_path

CHILD = """
import sys, time
from pathlib import Path
from dying_colours import DyingColours
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.events import ShardDone
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.extraction.parts import parse_part
images, cache, part, pause = sys.argv[1:]
for event in extract(list_folder(Path(images)), DyingColours(), Path(cache), shard_rows=5, part=parse_part(part)):
    if isinstance(event, ShardDone):
        time.sleep(float(pause))
"""


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    """Make 43 files in nine shards of five, of which the fourth file is not an image."""
    return make_folder(tmp_path / "images", 43, bad=frozenset({3}))


def run(listing: Listing, cache: Path, part: tuple[int, int] | None = None) -> list[Event]:
    return list(extract(listing, DyingColours(), cache, shard_rows=5, part=part))


def start(tmp_path: Path, part: str, pause: float) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", CHILD, str(tmp_path / "images"), str(tmp_path / "cache"), part, str(pause)]
    shared = Path(__file__).parents[1] / "shared"
    return subprocess.Popen(words, env={"PYTHONPATH": str(shared), "OMP_NUM_THREADS": "1", "PATH": ""})


def wait_for(path: Path, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert child.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


def test_three_parts_in_turn_write_what_one_process_writes(listing: Listing, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(listing, tmp_path / "alone")
    first, second = run(listing, cache, (0, 3)), run(listing, cache, (1, 3))
    assert first[0] == Started(15, 0, 3, listing.warnings)
    assert [event.shard for event in first if isinstance(event, ShardDone)] == [0, 3, 6]
    assert isinstance(first[-1], PartFinished)
    assert (first[-1].part, first[-1].n_listed, first[-1].n_shards_left, first[-1].n_worked) == ("0/3", 15, 6, 15)
    assert isinstance(second[-1], PartFinished)
    assert second[-1].n_shards_left == 3
    assert not (cache / "manifest.json").exists()
    third = run(listing, cache, (2, 3))
    assert isinstance(third[-2], PartFinished)
    assert third[-2].n_shards_left == 0
    assert isinstance(third[-1], Finished)
    assert (third[-1].n_ok, third[-1].n_bad, third[-1].n_worked) == (42, 1, 13)
    assert files_of(cache) == files_of(tmp_path / "alone")
    again = run(listing, cache, (1, 3))
    assert [event.n_worked for event in again if isinstance(event, PartFinished | Finished)] == [0, 0]


def test_a_call_without_parts_does_the_rest(listing: Listing, tmp_path: Path) -> None:
    run(listing, tmp_path / "alone")
    run(listing, tmp_path / "cache", (1, 2))
    end = run(listing, tmp_path / "cache")[-1]
    assert isinstance(end, Finished)
    assert end.n_worked == 23
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "alone")


def test_more_parts_than_shards_have_nothing_to_do(listing: Listing, tmp_path: Path) -> None:
    end = run(listing, tmp_path / "cache", (11, 12))[-1]
    assert isinstance(end, PartFinished)
    assert (end.n_listed, end.n_shards_left, end.n_worked) == (0, 9, 0)


def test_a_part_embeds_its_damaged_shards_anew_and_leaves_those_of_others_to_them(
    listing: Listing, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    run(listing, cache)
    whole = files_of(cache)
    for i in (1, 2):
        shard_path(cache, i).write_bytes(b"PAR1")
    events = run(listing, cache, (1, 2))
    assert isinstance(events[0], Started)
    assert "part-00001" in events[0].warnings[-1]
    assert [event.shard for event in events if isinstance(event, ShardDone)] == [1]
    assert isinstance(events[-1], PartFinished)
    assert events[-1].n_shards_left == 1
    assert not (cache / "manifest.json").exists()
    assert isinstance(run(listing, cache, (0, 2))[-1], Finished)
    assert files_of(cache) == whole


@pytest.mark.slow
def test_two_at_once_one_of_them_killed_and_resumed(
    listing: Listing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    run(listing, tmp_path / "alone")
    slow, quick = start(tmp_path, "0/2", 600), start(tmp_path, "1/2", 0)
    try:
        wait_for(shard_path(cache, 0), slow)
        assert quick.wait(120) == 0
        assert not (cache / "manifest.json").exists()
        message = rf"process {slow.pid} on .* \(part 0-of-2\) is writing"
        with pytest.raises(CacheError, match=message):
            run(listing, cache)
        with pytest.raises(CacheError, match=rf"cannot write 0-of-2 while {message}"):
            run(listing, cache, (0, 2))
        with pytest.raises(CacheError, match="different parts of the same total"):
            run(listing, cache, (1, 3))
        assert is_locked(cache)
        assert "part 0-of-2" in diagnose(cache)[0].what
    finally:
        slow.send_signal(signal.SIGKILL)
        slow.wait()
        quick.kill()
        quick.wait()
    assert not is_locked(cache)
    events = run(listing, cache, (0, 2))
    assert isinstance(events[0], Started)
    assert (events[0].n_listed, events[0].n_done) == (23, 5)
    assert isinstance(events[-1], Finished)
    assert files_of(cache) == files_of(tmp_path / "alone")
    monkeypatch.setattr(locking, "PATIENCE", 1)
    with write_lock(cache), pytest.raises(CacheError, match="one process at a time"):
        run(listing, cache, (0, 2))


def test_files_of_killed_parts_are_tidied_away(tmp_path: Path) -> None:
    with part_lock(tmp_path, "0-of-3"), part_lock(tmp_path, "2-of-3"):
        (tmp_path / "parts" / "1-of-3.lock").touch()
        (tmp_path / "parts" / "1-of-3.json").write_text('{"host": "there", "pid": 7}')
        with part_lock(tmp_path, "1-of-3"):
            assert len(list((tmp_path / "parts").glob("*.json"))) == 3
        assert len(list((tmp_path / "parts").glob("*.json"))) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]


def test_several_parts_are_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PATIENCE", 1)
    with part_lock(tmp_path, "0-of-3"):
        with (
            pytest.raises(CacheError, match=r"but process \d+ on .* \(part 0-of-3\) is writing "),
            write_lock(tmp_path),
        ):
            pass
        with part_lock(tmp_path, "2-of-3"):
            told = r"process \d+ on .* \(part 0-of-3\), process \d+ on .* \(part 2-of-3\) are writing "
            with pytest.raises(CacheError, match=f"but {told}"), write_lock(tmp_path):
                pass
            with pytest.raises(CacheError, match=f"cannot write 0-of-2 while {told}"), part_lock(tmp_path, "0-of-2"):
                pass


@pytest.mark.parametrize("text", ["3/2", "2/2", "0/0", "a/b", "1", "1/", "/3", "-1/3", "1/2/3", "1.0/2"])
def test_texts_that_name_no_part_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="I/N"):
        parse_part(text)


def test_parts_do_not_update(listing: Listing, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="part 0/2 and update"):
        list(extract(listing, DyingColours(), tmp_path / "cache", part=(0, 2), update=True))
