"""Uploads of images and downloads of heads, without a browser."""

import re
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.page.export import downloads_html
from frostbench.app.page.routes import routes
from frostbench.app.page.trying import EMPTY, UNTRAINED, predictions_html
from frostbench.app.uploads import Uploads
from frostbench.app.workspace import Workspace


@pytest.fixture
def here(tmp_path):
    return Workspace(tmp_path, (), tmp_path / "results")


@pytest.fixture
def uploads(tmp_path):
    return Uploads(tmp_path / "uploads", most_bytes=2**20, most_total=2**22)


@pytest.fixture
def client(here, uploads, tmp_path):
    return TestClient(Starlette(routes=routes(here, uploads, tmp_path / "heads")))


def png(mode="RGB"):
    out = BytesIO()
    Image.new(mode, (30, 20)).save(out, "PNG")
    return out.getvalue()


def give(client, content, name="a.png"):
    return client.post("/frostbench/images", params={"name": name}, content=content)


def test_the_preview_shows_the_decoded_image(client, uploads):
    reply = give(client, png("RGBA"), "a b.png").json()
    assert reply == {"id": reply["id"], "name": "a b.png"}
    assert uploads.get(reply["id"]).path.read_bytes() == png("RGBA")
    shown = client.get(f"/frostbench/images/{reply['id']}")
    assert shown.headers["content-type"] == "image/png"
    with Image.open(BytesIO(shown.content)) as seen:
        assert np.asarray(seen)[0, 0].tolist() == [255, 255, 255]


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
    assert not re.search("Traceback|gradio|image_utils", answer.text)
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


@pytest.mark.parametrize("key", ["0" * 32, "..", "%2e%2e%2fimage", "a" * 500])
def test_an_unknown_image_is_not_found(client, key):
    assert client.get(f"/frostbench/images/{key}").status_code == 404


def test_missing_images_and_heads_are_reported_in_place_of_predictions(here, uploads):
    assert predictions_html(None, {"A": "a", "B": "b"}, 1, 0, here, uploads) == EMPTY
    assert predictions_html("0", None, 1, 0, here, uploads) == UNTRAINED
    for odd in ("<img src=x onerror=alert(1)>", 7, ["a"], {"path": "/etc/passwd", "url": "http://127.0.0.1/"}):
        html = predictions_html(odd, {"A": "a", "B": "b"}, 1, 0, here, uploads)
        assert html.count("no longer on the server. Choose it again.") == 2
        assert "onerror" not in html


def test_a_head_is_sent_as_a_zip_and_the_file_is_removed(client, here, tmp_path):
    bundle = here.store / "runs" / "5d1f-stopped-3" / "head"
    (bundle / "sub").mkdir(parents=True)
    (bundle / "card.json").write_text("{}")
    (bundle / "sub" / "w.bin").write_bytes(b"1")
    (tmp_path / "secret").write_text("s")
    (bundle / "link").symlink_to(tmp_path / "secret")
    answer = client.get("/frostbench/heads/5d1f-stopped-3")
    assert 'filename="head-5d1f-stopped-3.zip"' in answer.headers["content-disposition"]
    with ZipFile(BytesIO(answer.content)) as packed:
        assert sorted(packed.namelist()) == ["head/card.json", "head/sub/w.bin"]
        assert packed.read("head/sub/w.bin") == b"1"
    assert list((tmp_path / "heads").iterdir()) == []


@pytest.mark.parametrize("key", ["none", "..", "%2e%2e", "..%2fsecret", ".hidden", "a%00b"])
def test_only_heads_of_the_store_are_sent(client, here, key):
    for name in ("", ".hidden", "../secret"):
        (here.store / "runs" / name / "head").mkdir(parents=True, exist_ok=True)
    answer = client.get(f"/frostbench/heads/{key}")
    assert answer.status_code == 404
    assert "PK" not in answer.text


def test_links_exist_only_for_existing_heads():
    text = downloads_html({"A": "5d1f", "B": ""})
    assert '<a class="fp-button" role="button" download href="frostbench/heads/5d1f">Download head A</a>' in text
    assert 'aria-disabled="true">Head B is not in the store</a>' in text
    assert downloads_html({}).count("aria-disabled") == 2
    odd = downloads_html({"A": '"><script>', "B": "../x"})
    assert 'href="frostbench/heads/%22%3E%3Cscript%3E"' in odd
    assert 'href="frostbench/heads/..%2Fx"' in odd
