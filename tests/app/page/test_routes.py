"""Images that are given to the page, and heads that are taken away, without a browser."""

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


def test_an_image_comes_back_as_the_head_sees_it(client, uploads):
    said = give(client, png("RGBA"), "a b.png").json()
    assert said == {"id": said["id"], "name": "a b.png"}
    assert uploads.get(said["id"]).path.read_bytes() == png("RGBA")
    shown = client.get(f"/frostbench/images/{said['id']}")
    assert shown.headers["content-type"] == "image/png"
    with Image.open(BytesIO(shown.content)) as seen:
        assert np.asarray(seen)[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (b"", "none.png", "none.png: the file is empty"),
        (b"\0\0\0\x18ftypheic", "photo.HEIC", "photo.HEIC: is HEIC, a format that is not read here"),
        (png()[:50], "cut.png", "cut.png: cannot be decoded: "),
        (b"<svg onload=alert(1)>", "<b>.svg", "<b>.svg: is not an image in a format that is read here"),
    ],
)
def test_what_is_no_image_is_told_in_the_words_of_the_decoder(client, uploads, tmp_path, content, name, told):
    answer = give(client, content, name)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(told)
    assert str(tmp_path) not in answer.text
    assert not re.search("Traceback|gradio|image_utils", answer.text)
    assert list(uploads.folder.iterdir()) == []


def test_an_image_that_is_too_large_is_told(client, uploads):
    answer = give(client, bytes(2**20 + 1))
    assert (answer.status_code, answer.json()["error"]) == (
        413,
        "an image takes at most 1 MB, however: more came. Give a smaller one.",
    )
    assert list(uploads.folder.iterdir()) == []


def test_a_disk_that_is_full_is_told(client, uploads, monkeypatch):
    async def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads, "_write", full)
    answer = give(client, png())
    assert answer.status_code == 507
    assert "however: it cannot be (No space left on device)" in answer.json()["error"]


@pytest.mark.parametrize("key", ["0" * 32, "..", "%2e%2e%2fimage", "a" * 500])
def test_an_image_that_is_not_kept_is_told(client, key):
    assert client.get(f"/frostbench/images/{key}").status_code == 404


def test_an_image_that_has_gone_or_heads_that_are_not_there_are_told_in_place_of_answers(here, uploads):
    assert predictions_html(None, {"A": "a", "B": "b"}, 1, 0, here, uploads) == EMPTY
    assert predictions_html("0", None, 1, 0, here, uploads) == UNTRAINED
    for odd in ("<img src=x onerror=alert(1)>", 7, ["a"], {"path": "/etc/passwd", "url": "http://127.0.0.1/"}):
        told = predictions_html(odd, {"A": "a", "B": "b"}, 1, 0, here, uploads)
        assert told.count("this one has gone. Choose it again.") == 2
        assert "onerror" not in told


def test_a_head_is_sent_as_a_zip_and_leaves_nothing(client, here, tmp_path):
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
def test_what_is_no_head_of_the_store_is_not_sent(client, here, key):
    for name in ("", ".hidden", "../secret"):
        (here.store / "runs" / name / "head").mkdir(parents=True, exist_ok=True)
    answer = client.get(f"/frostbench/heads/{key}")
    assert answer.status_code == 404
    assert "PK" not in answer.text


def test_links_lead_to_heads_that_are_there():
    text = downloads_html({"A": "5d1f", "B": ""})
    assert '<a class="fp-button" role="button" download href="frostbench/heads/5d1f">Download head A</a>' in text
    assert 'aria-disabled="true">The head of B is not in the store</a>' in text
    assert downloads_html({}).count("aria-disabled") == 2
    odd = downloads_html({"A": '"><script>', "B": "../x"})
    assert 'href="frostbench/heads/%22%3E%3Cscript%3E"' in odd
    assert 'href="frostbench/heads/..%2Fx"' in odd
