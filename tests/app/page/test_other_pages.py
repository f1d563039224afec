"""Another page in the same browser, from another port of this machine, cannot access ours."""

import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
POST = "method: 'POST', mode: 'no-cors'"
TRIES = {
    "read": "fetch(`${ours}config`)",
    "read without asking": "fetch(`${ours}config`, {mode: 'no-cors'})",
    "join the queue": "fetch(`${ours}gradio_api/queue/join`, {method: 'POST', body: '{\"data\":[],\"fn_index\":0}'})",
    "join with JSON": """fetch(`${ours}gradio_api/queue/join`, {method: 'POST', body: '{"data":[],"fn_index":0}',
        headers: {'content-type': 'application/json'}})""",
    "call a function": f"fetch(`${{ours}}gradio_api/call/train`, {{{POST}, body: '{{}}'}})",
    "ask for data": f"fetch(`${{ours}}frostbench/api/train-start`, {{{POST}, body: '{{}}'}})",
    "read data": "fetch(`${ours}frostbench/api/runs`)",
    "read the token": "fetch(`${ours}frostbench/token`)",
    "give an image": f"fetch(`${{ours}}frostbench/images?name=a.png`, {{{POST}, body: 'x'}})",
    "upload to Gradio": f"""(() => {{ const form = new FormData(); form.append('files', new Blob(['x']), 'a.png');
        return fetch(`${{ours}}gradio_api/upload`, {{{POST}, body: form}}); }})()""",
    "listen": """new Promise((open, shut) => {
        const heard = new EventSource(`${ours}gradio_api/queue/data?session_hash=a`);
        heard.onopen = open; heard.onerror = shut; })""",
    "take a head": "fetch(`${ours}frostbench/files/5d1f.zip`, {mode: 'no-cors'})",
    "load as a script": """new Promise((open, shut) => { const one = document.createElement('script');
        one.src = `${ours}frostbench/static/runs/runs.js`;
        one.onload = open; one.onerror = shut; document.body.append(one); })""",
    "load as an image": """new Promise((open, shut) => { const one = new Image();
        one.onload = open; one.onerror = shut; one.src = `${ours}frostbench/pictures?cache=digits`; })""",
}
"""Attempts of another page, as promises; `ours` is the address of our page."""


class Elsewhere(BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><body>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def elsewhere():
    """The address of another server on this machine."""
    other = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    running = threading.Thread(target=partial(other.serve_forever, 0.05), daemon=True)
    running.start()
    yield f"http://127.0.0.1:{other.server_address[1]}/"
    other.shutdown()
    other.server_close()
    running.join(10)


@pytest.fixture
def foreign(chromium, untouched, elsewhere):
    """A page from another server, and the status of every response it gets, by URL."""
    context = chromium.new_context()
    page, statuses = context.new_page(), {}
    page.on("response", lambda answer: statuses.update({answer.url: answer.status}))
    page.goto(elsewhere)
    statuses.clear()
    yield page, statuses
    context.close()


def left_behind(server):
    home = server.store / "app"
    return [path for path in home.rglob("*") if path.is_file()], list((server.store / "jobs").glob("*"))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("what", TRIES)
def test_another_page_gets_no_response(foreign, untouched, what, name):
    page, statuses = foreign
    ours = untouched.url.replace("127.0.0.1", name)
    got = page.evaluate(
        f"""async ours => {{ try {{ const got = await {TRIES[what]}; return got.type; }}
        catch (error) {{ return "refused"; }} }}""",
        ours,
    )
    # An opaque response reveals nothing to the page, not even its status.
    assert got in ("refused", "opaque")
    assert set(statuses.values()) <= {403}
    assert got == "refused" or statuses
    assert left_behind(untouched) == ([], [])


def test_a_form_of_another_page_is_refused(foreign, untouched):
    page, statuses = foreign
    page.evaluate(
        """ours => { document.body.innerHTML = `<form method=post enctype="multipart/form-data"
        action="${ours}frostbench/images?name=a.png"><input name=files value=x></form>`;
        document.forms[0].submit(); }""",
        untouched.url,
    )
    expect(page.locator("body")).to_contain_text("The server only answers its own page", timeout=LONG)
    assert list(statuses.values()) == [403]
    assert left_behind(untouched) == ([], [])


def test_another_page_cannot_frame_ours(foreign, untouched):
    page, statuses = foreign
    page.evaluate(
        """ours => new Promise(done => { const frame = document.createElement("iframe"); frame.onload = done;
        frame.src = ours; document.body.append(frame); })""",
        untouched.url,
    )
    assert list(statuses.values()) == [403]
    assert "Frostbench" not in "".join(frame.content() for frame in page.frames)


def test_a_link_of_another_page_opens_ours_without_an_opener(foreign, untouched):
    page, _ = foreign
    with page.context.expect_page() as opening:
        page.evaluate("ours => { window.opened = window.open(ours) }", untouched.url)
    ours = opening.value
    ours.locator("main[data-state=ready]").wait_for(timeout=LONG)
    assert ours.evaluate("window.opener") is None
    assert page.evaluate("opened.closed")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_our_own_page_works_under_both_names(chromium, untouched, name):
    context = chromium.new_context()
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
    page.goto(untouched.url.replace("127.0.0.1", name))
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)
    assert page.url.removeprefix(untouched.url.replace("127.0.0.1", name)).startswith("data")
    page.get_by_role("navigation").get_by_role("link", name="Train").click()
    expect(page.get_by_label("B: Preset")).to_be_enabled(timeout=LONG)
    context.close()
    assert wrong == []


def test_the_scratch_folder_is_removed_with_the_server(server):
    (own,) = (server.store / "app").iterdir()
    assert own.name.startswith(f"{server.process.pid}-")
    (own / "uploads").mkdir()
    (own / "uploads" / "image").touch()
    server.kill()
    server.start()
    (new,) = (server.store / "app").iterdir()
    assert new.name.startswith(f"{server.process.pid}-")
    server.process.terminate()
    server.process.wait(30)
    assert list((server.store / "app").iterdir()) == []
