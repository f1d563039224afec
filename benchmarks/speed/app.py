"""How long the page lets people wait: `frostbench app` in a process of its own, and headless Chromium.

No peer does the same job, so each figure holds our seconds against a limit: 1 is just within it, 2 takes half of it.

- ready: from starting the command to its first answer to GET /config.
- first_paint: the browser's own first-contentful-paint of a visit with nothing cached.
- usable: in the same visit, from opening the page to a form that is filled in and answers. The store holds two finished
  runs, as it does when people come back, so the server compares them meanwhile.
- compare: two runs with 20,000 rows of 200 classes, from the click that reveals the test rows to the verdict on the
  screen. Both ends are taken inside the browser. Each time it is another pair of runs, with a few rows less, so that
  nothing is kept from the comparisons before; only what the first one after a start imports is not in the median.
- compare_again: the same for runs on rows that were compared before, whose draws are kept: the click on "Back to
  validation".
"""

import http.client
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from frostbench.benchmarks.speed.fake_runs import write_fake_jobs, write_fake_runs
from frostbench.benchmarks.speed.harness import Figure, figure

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

READY_SECONDS = 8.0
PAINT_SECONDS = 2.0
USABLE_SECONDS = 4.0
COMPARE_SECONDS = 1.0
ROWS, CLASSES = 20_000, 200
PATIENCE_SECONDS = 120.0
"""After which the server, or what the browser waits for, counts as broken."""

STORE = "results"
COMMAND = (sys.executable, "-m", "frostbench.app.cli", "app", "--store", STORE)
VERDICT = "[data-testid=verdict][data-role={role}]"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")

FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
USABLE = "() => document.querySelector('[data-testid=form]')?.dataset.state === 'ready' && performance.now()"
# Watching for changes, not frame by frame, leaves the cores to the page. The second of the two frames begins when the
# first, which holds the verdict, is on the screen.
CLICK_TO_VERDICT = """([button, wanted]) => new Promise(resolve => {
    const began = performance.now();
    const watch = new MutationObserver(() => {
        const verdict = document.querySelector(wanted);
        if (!verdict?.checkVisibility()) return;
        watch.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
    });
    watch.observe(document.body, { subtree: true, childList: true, attributes: true });
    document.querySelector(button).click();
})"""


def figures(quick: bool) -> Iterator[Figure]:
    """The five figures; `quick` starts the server once, and repeats the rest less."""
    starts, visits, comparisons = (1, 3, 3) if quick else (3, 5, 7)
    with start_playwright() as playwright, tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        store = Path(folder) / STORE
        # No pair has as many test rows as validation rows, for these are compared when the page opens.
        queries = [query_of(write_pair(store, number)) for number in range(1, comparisons + 1)]
        ready = []
        for _ in range(starts - 1):
            with serve(Path(folder)) as (_, seconds):
                ready.append(seconds)
        with serve(Path(folder)) as (url, seconds), closing(open_browser(playwright)) as browser:
            yield within("app.ready", [*ready, seconds], READY_SECONDS)
            seen = [visit(browser, url) for _ in range(visits)]
            yield within("app.first_paint", [paint for paint, _ in seen], PAINT_SECONDS)
            yield within("app.usable", [usable for _, usable in seen], USABLE_SECONDS)
            first = [compare_first(browser, url + query) for query in queries]
            yield within("app.compare", first, COMPARE_SECONDS)
            again = compare_again(browser, url + queries[-1], comparisons)
            yield within("app.compare_again", again, COMPARE_SECONDS)


def write_pair(store: Path, number: int) -> Mapping[str, str]:
    """Two finished runs and their jobs, whose test rows are fewer by a number than their validation rows."""
    return write_fake_jobs(store, write_fake_runs(store, ROWS, CLASSES, test_rows=ROWS - number, number=number), number)


def within(name: str, found: Sequence[float], limit: float) -> Figure:
    """Seconds against the most that they may be; the goal is a ratio of 1.

    >>> within("x", [4.0, 1.0, 2.0], 8.0).ratio
    4.0
    """
    unit = f"limit of {limit:g} s / our seconds"
    return figure(name, [(each, limit) for each in found], [limit / each for each in found], goal=1.0, unit=unit)


def query_of(jobs: Mapping[str, str]) -> str:
    """The part of the address that shows two jobs.

    >>> query_of({"A": "1", "B": "2"})
    '?a=1&b=2'
    """
    return "?" + "&".join(f"{side.lower()}={job}" for side, job in jobs.items())


@contextmanager
def serve(folder: Path, command: Sequence[str] = COMMAND) -> Iterator[tuple[str, float]]:
    """The command in a folder until the block ends, however it does: its address, and the seconds until it answered.

    Raises:
        ConnectionError: it ends, or does not answer.
    """
    port, log = free_port(), folder / "server.log"
    began = time.perf_counter()
    with log.open("wb") as told:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, stdin=subprocess.DEVNULL, stdout=told, stderr=told
        )
    try:
        while not answers(port):
            if server.poll() is not None or time.perf_counter() - began > PATIENCE_SECONDS:
                raise ConnectionError(
                    f"the page's server must answer within {PATIENCE_SECONDS:.0f} s, however: it has not, and says: "
                    f"{log.read_text('utf-8', 'replace')[-2000:]}\nStart `frostbench app` by hand to see why."
                )
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/", time.perf_counter() - began
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether the server gives its configuration, which it can only once the page is built."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as asked:
        try:
            asked.request("GET", "/config")
            return asked.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False


def start_playwright() -> "AbstractContextManager[Playwright]":
    """What drives the browser.

    Raises:
        ModuleNotFoundError: playwright is not installed.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this benchmark drives a browser by playwright, however: it is not installed. Run `pip install playwright`."
        ) from error
    return sync_playwright()


def open_browser(playwright: "Playwright", which: Callable[[str], str | None] = shutil.which) -> "Browser":
    """The system's Chromium, headless.

    Args:
        playwright: what drives it.
        which: finds the path of a program.

    Raises:
        FileNotFoundError: there is none.
    """
    path = next((found for name in CHROMIUMS if (found := which(name))), None)
    if path is None:
        raise FileNotFoundError(
            f"this benchmark needs a browser on the PATH, however: none of {', '.join(CHROMIUMS)} is there. Run "
            "`apt-get install chromium`."
        )
    return playwright.chromium.launch(executable_path=path)


def visit(browser: "Browser", url: str) -> tuple[float, float]:
    """Seconds until the first paint, and until the form answers, of a visit with nothing cached."""
    with opened(browser, url) as page:
        usable = page.wait_for_function(USABLE).json_value()
        paint = page.wait_for_function(FIRST_PAINT).json_value()
        # What this visit asked of the server is not to slow the next one.
        page.locator(VERDICT.format(role="select")).wait_for()
    return paint / 1000, usable / 1000


def compare_first(browser: "Browser", url: str) -> float:
    """Seconds from the click that reveals the test rows of a pair to its verdict on them."""
    with opened(browser, url) as page:
        page.locator(VERDICT.format(role="select")).wait_for()
        page.locator("#reveal").click()
        page.locator("#really-reveal").wait_for()
        return float(page.evaluate(CLICK_TO_VERDICT, ["#really-reveal", VERDICT.format(role="test")])) / 1000


def compare_again(browser: "Browser", url: str, times: int) -> list[float]:
    """Seconds from asking for the comparison on the validation rows to its verdict, each time coming from the test."""
    found, wanted = [], VERDICT.format(role="select")
    with opened(browser, url) as page:
        page.locator(wanted).wait_for()
        for _ in range(times):
            page.locator("#reveal").click()
            page.locator("#really-reveal").click()
            page.locator(VERDICT.format(role="test")).wait_for()
            page.locator("#back-to-validation").wait_for()
            found.append(page.evaluate(CLICK_TO_VERDICT, ["#back-to-validation", wanted]) / 1000)
    return found


@contextmanager
def opened(browser: "Browser", url: str) -> "Iterator[Page]":
    """A page in a browser profile of its own."""
    with closing(browser.new_context()) as context:
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        page = context.new_page()
        page.goto(url, wait_until="commit")
        yield page
