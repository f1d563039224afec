"""Storage of uploaded images, and the scratch folder."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frostbench.app.scratch import scratch_folder
from frostbench.app.uploads import UploadError, Uploads, plain_name


async def chunks(*parts):
    for part in parts:
        yield part


def in_a_thread(coroutine):
    """Run a coroutine where no browser test has left an event loop running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def take(uploads, *parts, name="a.png"):
    return in_a_thread(uploads.take(name, chunks(*parts)))


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_bytes_are_stored_unchanged(tmp_path):
    uploads = Uploads(tmp_path / "kept")
    key = take(uploads, b"\x89PNG", b"", b"\r\n", name="up/../cat \n1.HEIC")
    upload = uploads.get(key)
    assert (upload.path.read_bytes(), upload.name, upload.size) == (b"\x89PNG\r\n", "cat 1.HEIC", 6)
    uploads.drop(key)
    uploads.drop(key)
    assert list((tmp_path / "kept").iterdir()) == []
    with pytest.raises(UploadError, match="no longer on the server"):
        uploads.get(key)


def test_an_image_that_is_too_large_leaves_nothing(tmp_path):
    uploads = Uploads(tmp_path, most_bytes=2**20, most_total=2**22)
    assert uploads.get(take(uploads, bytes(2**20))).size == 2**20
    with pytest.raises(UploadError, match="An image may have at most 1 MiB, but this one is larger"):
        take(uploads, bytes(2**20), b"1")
    assert files(tmp_path) == ["image"]
    assert len(list(tmp_path.iterdir())) == 1


def test_the_oldest_images_are_removed_when_space_runs_out(tmp_path):
    uploads = Uploads(tmp_path, most_bytes=2**20, most_total=2**22)
    keys = [take(uploads, bytes(2**20)) for _ in range(6)]
    assert files(tmp_path) == ["image"] * 4
    for key in keys[:2]:
        with pytest.raises(UploadError, match="Choose it again"):
            uploads.get(key)
    assert all(uploads.get(key).path.is_file() for key in keys[2:])


def test_uploads_in_progress_count(tmp_path):
    uploads = Uploads(tmp_path, most_bytes=2**20, most_total=2**21)

    async def crowd():
        gate = asyncio.Event()

        async def slow():
            yield b"1"
            await gate.wait()

        first = [asyncio.create_task(uploads.take("a", slow())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(UploadError, match="others are still being uploaded"):
            await uploads.take("b", chunks(b"2"))
        gate.set()
        return await asyncio.gather(*first)

    assert len(in_a_thread(crowd())) == 2
    assert uploads.get(take(uploads, b"3")).size == 1


def test_an_interrupted_upload_leaves_nothing(tmp_path):
    uploads = Uploads(tmp_path, most_bytes=2**20, most_total=2**20)

    async def broken():
        yield b"1"
        raise ConnectionError("gone")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            in_a_thread(uploads.take("a", broken()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "/", "\x00\n", " . ", "a/.."])
def test_an_unusable_name_is_replaced(name):
    assert plain_name(name) == "image"


HOLD = """
import sys
from pathlib import Path
from frostbench.app.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as own:
    print(own, flush=True)
    input()
"""


def test_only_folders_of_killed_servers_are_removed(tmp_path):
    home, documents = tmp_path / "app", tmp_path / "documents"
    words = [sys.executable, "-c", HOLD, str(home)]
    alive, killed = (subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "ab")
    living, left = (Path(one.stdout.readline().strip()) for one in (alive, killed))
    killed.kill()
    killed.communicate()
    (left / "image").touch()
    kept = {"notes", "0", "12a", "4711", "9" * 30, "12-0123456z", "1-00000000", "2-00000000"}
    for name in kept - {"1-00000000", "2-00000000"}:
        (home / name).mkdir()
        (home / name / "file").touch()
    documents.mkdir()
    (documents / "letter").touch()
    (home / "1-00000000").symlink_to(documents)
    (home / "2-00000000").write_text("a file")
    with scratch_folder(home) as own:
        (own / "uploads").mkdir()
        assert own.name.startswith(f"{os.getpid()}-")
        assert {path.name for path in home.iterdir()} == kept | {living.name, own.name}
    alive.communicate("\n")
    assert {path.name for path in home.iterdir()} == kept
    assert not own.exists()
    assert files(documents) == ["letter"]
