"""Requests that are answered or refused, as sent by browsers and other programs."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from frostbench.app.server.doors import STALE, TOKEN, Doors, refusal_of

HERE = "127.0.0.1:7860"
OWN = {"host": HERE, "origin": f"http://{HERE}", "sec-fetch-site": "same-origin", TOKEN: "secret"}
VISIT = {"host": HERE, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def status(method, path, headers):
    found = refusal_of(method, path, Headers(headers), "secret")
    return None if found is None else found.status


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", VISIT | {"sec-fetch-site": "none"}),
        ("GET", "/", VISIT | {"sec-fetch-site": "cross-site"}),
        ("GET", "/", {"host": HERE}),
        ("GET", "/config", {"host": HERE}),
        ("GET", "/frostbench/static/runs/runs.js", {"host": "localhost:9000", "sec-fetch-site": "same-origin"}),
        ("POST", "/gradio_api/queue/join", OWN),
        ("POST", "/gradio_api/call/runs", OWN),
        ("POST", "/frostbench/images", OWN | {"host": "localhost:9", "origin": "http://localhost:9"}),
        ("GET", "/frostbench/files/5d1f.zip", {"host": HERE, "sec-fetch-site": "same-origin"}),
    ],
)
def test_requests_of_the_page_and_visits_are_answered(method, path, headers):
    assert status(method, path, headers) is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1]:7860", "127.0.0.2:7860"])
def test_other_host_names_are_refused(host):
    assert status("GET", "/", {"host": host}) == HTTPStatus.BAD_REQUEST
    assert refusal_of("GET", "/", Headers(raw=[(b"host", HERE.encode())] * 2), "secret").status == 400
    assert refusal_of("GET", "/", Headers(raw=[]), "secret").status == 400


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:7860"},
        {"origin": "https://127.0.0.1:7860"},
        {"origin": "null"},
        {"origin": "file://"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/config"), ("POST", "/gradio_api/queue/join"), ("OPTIONS", "/")])
def test_another_page_is_refused_even_with_the_token(method, path, changed):
    assert status(method, path, OWN | changed) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("method", "path", "dest"),
    [("GET", "/", "iframe"), ("GET", "/config", "document"), ("POST", "/", "document"), ("GET", "/", "script")],
)
def test_a_link_opens_the_page_only_as_a_document(method, path, dest):
    headers = VISIT | {"sec-fetch-site": "same-site", "sec-fetch-dest": dest, TOKEN: "secret"}
    assert status(method, path, headers) == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("token", [{}, {TOKEN: ""}, {TOKEN: "secre"}, {TOKEN: "other"}, {TOKEN: "s\xe9cret"}])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_changing_requests_need_the_token(method, token):
    headers = {"host": HERE, "origin": f"http://{HERE}"} | token
    refusal = refusal_of(method, "/gradio_api/queue/join", Headers(headers), "secret")
    assert (refusal.status, dict(refusal.headers)) == (HTTPStatus.FORBIDDEN, {STALE: "1"})


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/gradio_api/upload_progress",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=http://127.0.0.1:1/x",
        "/gradio_api/file/etc/passwd",
        "/gradio_api/proxy=http://x.hf.space/",
        "/gradio_api/heartbeat/abc",
        "/gradio_api/run/predict",
        "/gradio_api/component_server",
        "/assets/index.js",
        "/theme.css",
        "/gradio_api/stream/x",
        "/gradio_api/run-history/records",
        "/gradio_api/process_recording",
        "/gradio_api/vibe-edit",
        "/monitoring",
        "/login",
        "/gradio_api/dev/reload",
        "/gradio_api/deep_link",
        "/../config",
        "//config",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_addresses_that_the_page_does_not_use_are_not_served(method, path):
    assert status(method, path, OWN) == HTTPStatus.NOT_FOUND


@pytest.fixture
def client():
    """A client of an app that allows every origin, wrapped in `Doors`."""

    async def answer(request):
        return PlainTextResponse("content", headers={"Access-Control-Allow-Origin": "*", "X-Frame-Options": "ALLOWALL"})

    async def socket(socket):
        await socket.accept()

    app = Starlette(
        routes=[Route("/", answer, methods=["GET", "POST"]), WebSocketRoute("/gradio_api/queue/join", socket)]
    )
    return TestClient(Doors(app, "secret"), base_url=f"http://{HERE}")


def test_no_response_may_be_framed_or_read_by_another_page(client):
    refused = client.get("/", headers={"origin": "http://127.0.0.1:9999"})
    assert refused.status_code == HTTPStatus.FORBIDDEN
    assert "The server only answers its own page, but the request came from ['http://127.0.0.1:9999']" in refused.text
    for response, text in ((client.get("/"), "content"), (refused, refused.text)):
        assert response.text == text
        assert not [name for name in response.headers if name.startswith("access-control-")]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert client.post("/", headers={TOKEN: "secret"}).text == "content"


def test_a_web_socket_is_refused(client):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/gradio_api/queue/join", headers=OWN):
        pass


def test_lifespan_events_reach_the_application():
    started = []

    async def app(scope, receive, send):
        started.append(scope["type"])

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, Doors(app, "secret")({"type": "lifespan"}, None, None)).result()
    assert started == ["lifespan"]


def test_a_link_on_another_page_opens_a_tab_but_reads_no_data():
    visit = VISIT | {"sec-fetch-site": "cross-site"}
    assert status("GET", "/runs", visit) is None
    assert status("GET", "/frostbench/api/runs", visit) == 403
    assert status("GET", "/runs", visit | {"sec-fetch-dest": "iframe"}) == 403
    assert status("POST", "/frostbench/api/differences", {"host": HERE}) == 403
