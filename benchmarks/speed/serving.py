"""`frostbench app` in its own process, and headless Chromium, for the timings of the page."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

STORE = "results"
COMMAND = (sys.executable, "-m", "frostbench.app.cli", "app", "--store", STORE)
PATIENCE_SECONDS = 600.0
"""Timeout after which the server, or an event in the browser, counts as broken."""
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
READY = "main[data-state=ready]"


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        url: its address.
        seconds: from starting the command to its first answer with data.
        process: process ID.
    """

    url: str
    seconds: float
    process: int

    def ask(self, name: str, request: object = None) -> Any:
        """Return the server's answer to a request for data.

        Raises:
            ConnectionError: the server refuses.
        """
        with closing(http.client.HTTPConnection(self.url.split("/")[2], timeout=PATIENCE_SECONDS)) as connection:
            connection.request("GET", "/frostbench/token")
            token = connection.getresponse().read().decode()
            method, body = ("GET", None) if request is None else ("POST", json.dumps(request))
            connection.request(method, f"/frostbench/api/{name}", body, {"x-frostbench-token": token})
            reply = connection.getresponse()
            content = reply.read()
        if reply.status != http.client.OK:
            raise ConnectionError(f"The server refused {name} (status {reply.status}): {content[:500]!r}")
        return json.loads(content) if reply.headers["content-type"] == "application/json" else content

    def megabytes(self) -> tuple[float, float]:
        """Return resident memory, shared libraries included, and the memory that is the server's alone, in MB."""
        found = psutil.Process(self.process).memory_full_info()
        return found.rss / 1e6, found.uss / 1e6


@contextmanager
def serve(folder: Path, command: Sequence[str] = COMMAND) -> Iterator[Served]:
    """Run the command in a folder until the block ends; the time runs until it answers with data.

    Raises:
        ConnectionError: the server exits or does not answer.
    """
    port, log = free_port(), folder / "server.log"
    began = time.perf_counter()
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        while not answers(port):
            if server.poll() is not None or time.perf_counter() - began > PATIENCE_SECONDS:
                raise ConnectionError(
                    f"The page's server exited or did not answer within {PATIENCE_SECONDS:.0f} s. Its output: "
                    f"{log.read_text('utf-8', 'replace')[-2000:]}\nStart `frostbench app` by hand to see why."
                )
            time.sleep(0.02)
        yield Served(f"http://127.0.0.1:{port}/", time.perf_counter() - began, server.pid)
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether the server answers with data, for which it must have imported all it needs."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", "/frostbench/api/runs")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def start_playwright() -> "AbstractContextManager[Playwright]":
    """Start playwright, which drives the browser.

    Raises:
        ModuleNotFoundError: playwright is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("This benchmark needs playwright. Run `pip install playwright`.") from error
    return sync_playwright()


def open_browser(playwright: "Playwright", which: Callable[[str], str | None] = shutil.which) -> "Browser":
    """Open the system's Chromium, headless.

    Args:
        playwright: the running playwright.
        which: function that returns the path of a program.

    Raises:
        FileNotFoundError: no Chromium is installed.
    """
    path = next((found for name in CHROMIUMS if (found := which(name))), None)
    if path is None:
        raise FileNotFoundError(
            f"This benchmark needs a browser on the PATH, but none of {', '.join(CHROMIUMS)} was found. Run "
            "`apt-get install chromium`."
        )
    return playwright.chromium.launch(executable_path=path)


@contextmanager
def opened(browser: "Browser", url: str) -> "Iterator[Page]":
    """Open a page in a fresh browser profile."""
    with closing(browser.new_context(viewport={"width": 1366, "height": 900})) as context:
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        page = context.new_page()
        page.goto(url, wait_until="commit")
        yield page
