"""Servers in their own processes, and headless Chromium; without Chromium, these tests are skipped."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image
from short_benches import SHORT
from sklearn.datasets import load_digits

COMMA = 'digit 1, "thin"'
EVIL = "<img src=x onerror=window.hacked=1>"
DEADLINE = 90


@dataclass
class Server:
    """`frostbench app` running in its own folder."""

    folder: Path
    port: int
    process: subprocess.Popen | None = field(default=None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def store(self) -> Path:
        return self.folder / "results"

    def start(self) -> None:
        log = (self.folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "frostbench.app.cli", "app", "--port", str(self.port)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )
        log.close()
        deadline = time.monotonic() + DEADLINE
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "server.log").read_text()
            assert time.monotonic() < deadline, "the server did not answer"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "frostbench/api/jobs", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A folder with images of three classes and their cache; two class names need correct escaping."""
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.embedcache.backbones import load_backbone
    from frostbench.embedcache.sources.source import list_folder

    root = tmp_path_factory.mktemp("page")
    x, y = load_digits(return_X_y=True)
    for digit, name in ((0, "digit 0"), (1, COMMA), (8, EVIL)):
        (root / "images" / name).mkdir(parents=True)
        for i in np.flatnonzero(y == digit)[:60]:
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC).save(
                root / "images" / name / f"{i:04d}.png"
            )
    embed_listing(list_folder(root / "images"), load_backbone("bundled", "efficientnet_lite0"), root / "digits")
    return root


WORKERS = ("frostbench.app.worker", "frostbench.app.workbench.photos.worker")


@contextmanager
def served(digits, folder, caches=("digits", "copy")):
    """Run a server in a folder with caches of the same images; kill it and its workers at the end."""
    for name in caches:
        if not (folder / name).exists():
            shutil.copytree(digits / "digits", folder / name)
    server = Server(folder, free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()
        for process in psutil.process_iter(["cmdline", "cwd"]):
            if process.info["cwd"] == str(folder) and not set(WORKERS).isdisjoint(process.info["cmdline"] or []):
                process.kill()


@pytest.fixture(scope="session")
def serve(digits):
    """The function `served`, for servers of a module's own."""
    return partial(served, digits)


@pytest.fixture
def server(digits, tmp_path):
    """A server of the test's own."""
    with served(digits, tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def untouched(digits, tmp_path_factory):
    """A server for tests that train nothing and change no file."""
    with served(digits, tmp_path_factory.mktemp("untouched")) as started:
        yield started


@contextmanager
def browsed(chromium, server):
    """A function that opens the page; a script error or a request to another address fails the test at the end."""
    contexts, wrong = [], []

    def watch(request) -> None:
        if not request.url.startswith((server.url, "data:", "blob:")):
            wrong.append(f"request to {request.url}")

    def open_page(query: str = "", width: int = 1366):
        context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"script error {error}"))
        page.on("request", watch)
        page.goto(server.url + query)
        page.locator("main[data-state=ready]").wait_for()
        return page

    open_page.folder = server.folder
    try:
        yield open_page
    finally:
        for context in contexts:
            # A context that is closed while its page reloads itself may never close, and `close` has no timeout.
            for page in context.pages:
                page.goto("about:blank", timeout=30_000)
            context.close()
    assert wrong == []


@pytest.fixture
def browse(chromium, server):
    with browsed(chromium, server) as open_page:
        yield open_page


@pytest.fixture
def look(chromium, untouched):
    with browsed(chromium, untouched) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def open_shared(chromium, digits, tmp_path_factory):
    """As `browse`, with one server for all tests of a module."""
    with served(digits, tmp_path_factory.mktemp("shared")) as server, browsed(chromium, server) as open_page:
        yield open_page


FOUR_SETTINGS = {
    "smoothed": {"train.loss.smoothing.epsilon": 0.3},
    "ridge": {"preset": "ridge"},
    "lda": {"preset": "lda"},
}


@pytest.fixture(scope="module")
def open_runs(chromium, digits, tmp_path_factory):
    """As `browse`, in a folder with a store of the command line that has four settings with two seeds each."""
    from frostbench.benchmarks.runs.runner import run_bench
    from frostbench.benchmarks.settings.plan import BenchSpec

    folder = tmp_path_factory.mktemp("runs_tab")
    store, caches = str(folder / "mine" / "results"), (str(shutil.copytree(digits / "digits", folder / "digits")),)
    bench = {"caches": caches, "store": store, "preset": "plain", "base": SHORT, "toggles": FOUR_SETTINGS}
    list(run_bench(BenchSpec(**bench, seeds=(0, 1))))
    with served(digits, folder) as server, browsed(chromium, server) as open_page:
        yield open_page


WRONG = {"digit 0": "digit 1", "digit 1": "digit 0"}


@pytest.fixture(scope="session")
def mislabelled(tmp_path_factory):
    """A cache of zeros, ones and eights, in which three zeros are labelled as ones and three ones as zeros."""
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.embedcache.backbones import load_backbone
    from frostbench.embedcache.sources.source import list_folder

    root = tmp_path_factory.mktemp("mislabelled")
    x, y = load_digits(return_X_y=True)
    for digit in (0, 1, 8):
        for place, i in enumerate(np.flatnonzero(y == digit)[:50]):
            name = f"digit {digit}"
            folder = root / "images" / (WRONG.get(name, name) if place < 3 else name)
            folder.mkdir(parents=True, exist_ok=True)
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            image = Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC)
            image.save(folder / f"really {digit} {i:04d}.png")
    embed_listing(list_folder(root / "images"), load_backbone("bundled", "efficientnet_lite0"), root / "digits")
    return root / "digits"


@pytest.fixture
def chromium_page(chromium):
    """A function that opens an address in a fresh browser profile; a script error fails the test at the end."""
    contexts, wrong = [], []

    def open_page(address):
        contexts.append(chromium.new_context(viewport={"width": 1366, "height": 900}, accept_downloads=True))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        page.locator("main[data-state=ready]").wait_for()
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            page.goto("about:blank", timeout=30_000)
        context.close()
    assert wrong == []
