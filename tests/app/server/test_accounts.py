"""Names and passwords of a page that other machines can reach."""

import base64

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from frostbench.app.server import doors
from frostbench.app.server.accounts import AccountError, read_accounts
from frostbench.app.server.doors import TOKEN, Doors


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "accounts"
    path.write_text("# the lab\nana:correct horse\n\nbo:pässwörter:with colon\n", encoding="utf-8")
    path.chmod(0o600)
    return path


def basic(text):
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def test_only_stated_accounts_are_allowed(file):
    found = read_accounts(file)
    assert found.allow(basic("ana:correct horse"))
    assert found.allow(basic("bo:pässwörter:with colon"))
    wrong = [basic("ana:wrong"), basic("ana"), basic(":correct horse"), "Basic !!!", "Bearer x", "", None, "Basic"]
    assert not any(map(found.allow, wrong))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must have at least one line"),
        ("# nobody", "must have at least one line"),
        ("ana", "account 1 is not"),
        ("ana:short", "at least 8 characters of password, but account 1 is not"),
        ("ana:long enough\n:nobody here", "account 2 is not"),
    ],
)
def test_malformed_files_are_refused(tmp_path, content, message):
    path = tmp_path / "accounts"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(AccountError, match=message):
        read_accounts(path)


def test_a_file_that_others_can_read_is_refused(file, tmp_path):
    file.chmod(0o640)
    with pytest.raises(AccountError, match=f"Run: chmod 600 {file}"):
        read_accounts(file)
    with pytest.raises(AccountError, match=r"is none\. Create it"):
        read_accounts(tmp_path / "nowhere")


@pytest.fixture
def client(file, monkeypatch):
    monkeypatch.setattr(doors, "WRONG_SECONDS", 0.0)

    async def answer(request):
        return PlainTextResponse("content")

    app = Starlette(routes=[Route("/runs", answer, methods=["GET", "POST"])])
    return TestClient(Doors(app, "secret", read_accounts(file)), base_url="http://lab.example:7860")


def test_every_request_needs_a_password(client):
    refused = client.get("/runs")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith('Basic realm="Frostbench"')
    assert client.get("/runs", headers={"authorization": basic("ana:no")}).status_code == 401
    known = {"authorization": basic("ana:correct horse")}
    assert client.get("/runs", headers=known).text == "content"
    assert client.post("/runs", headers=known).status_code == 403
    assert client.post("/runs", headers=known | {TOKEN: "secret"}).text == "content"


def test_other_pages_are_refused_with_a_password_too(client):
    known = {"authorization": basic("ana:correct horse"), TOKEN: "secret"}
    assert client.post("/runs", headers=known | {"origin": "http://lab.example:7860"}).status_code == 200
    assert client.post("/runs", headers=known | {"origin": "https://lab.example:7860"}).status_code == 200
    assert client.post("/runs", headers=known | {"origin": "http://evil.example"}).status_code == 403
    assert client.post("/runs", headers=known | {"sec-fetch-site": "cross-site"}).status_code == 403
