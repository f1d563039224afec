"""Uploads of images and zip files, without a browser."""

import os
import re
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from frostbench.app.uploads import Uploads
from frostbench.app.workbench import uploading


@pytest.fixture
def uploads(tmp_path):
    return Uploads(tmp_path / "uploads", most_bytes=2**20, most_total=2**22)


@pytest.fixture
def client(uploads, tmp_path):
    async def upload(request):
        return await uploading.take_images(request, uploads, tmp_path / "scratch")

    return TestClient(Starlette(routes=[Route("/images", upload, methods=["POST"])]))


def png(mode="RGB", size=(30, 20)):
    out = BytesIO()
    Image.new(mode, size).save(out, "PNG")
    return out.getvalue()


def packed(files, **how):
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return out.getvalue()


def give(client, content, name="a.png"):
    return client.post("/images", params={"name": name}, content=content)


def test_an_image_is_kept_byte_for_byte(client, uploads):
    (kept,) = give(client, png("RGBA"), "folder/a b.png").json()["images"]
    assert kept["name"] == "a b.png"
    assert uploads.get(kept["id"]).path.read_bytes() == png("RGBA")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "none.png", "none.png: the file is empty"),
        (b"\0\0\0\x18ftypheic", "photo.HEIC", "photo.HEIC: is HEIC, an unsupported format"),
        (png()[:50], "cut.png", "cut.png: cannot be decoded: "),
        (b"<svg onload=alert(1)>", "<b>.svg", "<b>.svg: is not an image in a supported format"),
    ],
)
def test_a_file_that_is_not_an_image_is_an_error_of_the_decoder(client, uploads, tmp_path, content, name, message):
    answer = give(client, content, name)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(message)
    assert str(tmp_path) not in answer.text
    assert not re.search("Traceback|image_utils", answer.text)
    assert list(uploads.folder.iterdir()) == []


def test_an_image_that_is_too_large_is_an_error(client, uploads):
    answer = give(client, bytes(2**20 + 1))
    assert (answer.status_code, answer.json()["error"]) == (
        413,
        "An image may have at most 1 MiB, but this one is larger. Choose a smaller image.",
    )
    assert list(uploads.folder.iterdir()) == []


def test_a_full_disk_is_an_error(client, uploads, monkeypatch):
    async def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads, "_write", full)
    answer = give(client, png())
    assert answer.status_code == 507
    assert "could not be written to disk (No space left on device)" in answer.json()["error"]


def test_the_images_of_a_zip_file_are_kept_and_others_told(client, uploads, tmp_path):
    files = {"new/one.png": png(), "new/two.jpg": png("L"), "new/notes.txt": b"n", "__MACOSX/new/one.png": b"x"}
    told = give(client, packed(files | {".hidden.png": b"y"}), "Photos.ZIP").json()
    assert [one["name"] for one in told["images"]] == ["new/one.png", "new/two.jpg"]
    assert uploads.get(told["images"][1]["id"]).path.read_bytes() == png("L")
    assert told["notes"] == ["Files that are no images were skipped: 2 .png, 1 .txt."]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zip", "The zip file cannot be read: File is not a zip file. Pack it again"),
        (packed({"a.txt": b"a"}), "A zip file must hold 1 to 5,000 images, got 0. Pack images."),
        (packed({"a.png": bytes(2**20 + 1)}), "may have at most 1 MiB each and 3 MiB together, but 'a.png' is larger"),
        (
            packed({f"{i}.png": bytes(2**20) for i in range(5)}),
            "may have at most 1 MiB each and 3 MiB together, but together they have 5. Unpack it",
        ),
        (bytes(2**22 + 1), "A zip file may have at most 4 MiB, but this one is larger."),
    ],
)
def test_zip_files_that_cannot_be_taken_are_refused(client, uploads, content, message):
    answer = give(client, content, "a.zip")
    assert answer.status_code == 413
    assert message in answer.json()["error"]
    assert not uploads.folder.is_dir() or list(uploads.folder.iterdir()) == []


def test_too_many_images_in_a_zip_file_are_refused(client, monkeypatch):
    monkeypatch.setattr(uploading, "MOST_IN_ZIP", 2)
    answer = give(client, packed({f"{i}.png": png() for i in range(3)}), "a.zip")
    assert "must hold 1 to 2 images, got 3. Unpack it below the folder" in answer.json()["error"]


def test_a_zip_file_with_a_password_is_refused(client):
    # Bit 0 of the general purpose flag says that a member is encrypted.
    content = bytearray(packed({"a.png": png()}))
    for start in (content.index(b"PK\3\4") + 6, content.index(b"PK\1\2") + 8):
        content[start] |= 1
    assert "Pack it again without a password." in give(client, bytes(content), "a.zip").json()["error"]


def test_a_zip_file_with_damaged_bytes_is_refused(client):
    content = bytearray(packed({"cats/1.png": os.urandom(500) + bytes(5000)}))
    start = content.index(b"PK\3\4") + 30 + len("cats/1.png")
    content[start : start + 40] = b"\xff" * 40
    assert "The zip file cannot be read" in give(client, bytes(content), "a.zip").json()["error"]
