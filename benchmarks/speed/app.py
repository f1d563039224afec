"""How long users of the page wait: `frostbench app` in its own process, with headless Chromium.

No peer does the same job, so each figure is a limit divided by our seconds: 1 just meets the limit, 2 takes half of it.

- ready: from starting the command to its first answer to GET /config.
- first_paint: the browser's first-contentful-paint of a visit with an empty cache.
- usable: in the same visit, from opening the page to a filled-in, responsive form. The store contains finished runs, as
for returning users, so the server compares two of them at the same time.
- compare: two runs with 20,000 rows of 200 classes, from the click that reveals the test rows to the verdict on screen,
both measured inside the browser. Every repetition uses another pair of runs with slightly fewer rows, so that nothing
is cached; the median is insensitive to the imports of the first comparison.
- compare_again: from the click on "Back to validation" to the verdict. These rows were compared before, so their
resamples are cached.
- runs_first, runs: the list of 10,000 runs (quick: 1,000), first and again; runs_filter, runs_sort: the tab Runs with
them, from a letter or a click to the new rows on screen (`frostbench.benchmarks.speed.runs_tab`).
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

from frostbench.benchmarks.speed import runs_tab
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
"""Timeout after which the server, or an event in the browser, counts as broken."""

STORE = "results"
COMMAND = (sys.executable, "-m", "frostbench.app.cli", "app", "--store", STORE)
VERDICT = "[data-testid=verdict][data-role={role}]"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")

FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
USABLE = "() => document.querySelector('[data-testid=form]')?.dataset.state === 'ready' && performance.now()"
# Observing changes instead of polling leaves the cores to the page. The second of the two frames begins once the first,
# which contains the verdict, is on screen.
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
    """Yield the nine figures; `quick` starts the server once and repeats the rest less often."""
    starts, visits, comparisons = (1, 3, 3) if quick else (3, 5, 7)
    with start_playwright() as playwright, tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        store = Path(folder) / STORE
        # Every pair has fewer test rows than validation rows, which are compared when the page opens.
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
    with start_playwright() as playwright, tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        runs_tab.write_runs(Path(folder), quick)
        with serve(Path(folder)) as (url, _), closing(open_browser(playwright)) as browser:
            for times in runs_tab.measure(browser, url, comparisons):
                yield within(times.name, times.seconds, times.limit)


def write_pair(store: Path, number: int) -> Mapping[str, str]:
    """Write two finished runs and their jobs, with `number` fewer test rows than validation rows."""
    return write_fake_jobs(store, write_fake_runs(store, ROWS, CLASSES, test_rows=ROWS - number, number=number), number)


def within(name: str, seconds: Sequence[float], limit: float) -> Figure:
    """Compare seconds with a limit; the goal is a ratio of 1.

    >>> within("x", [4.0, 1.0, 2.0], 8.0).ratio
    4.0
    """
    unit = f"limit of {limit:g} s / our seconds"
    return figure(name, [(s, limit) for s in seconds], [limit / s for s in seconds], goal=1.0, unit=unit)


def query_of(jobs: Mapping[str, str]) -> str:
    """Return the query string that shows two jobs.

    >>> query_of({"A": "1", "B": "2"})
    '?a=1&b=2'
    """
    return "?" + "&".join(f"{side.lower()}={job}" for side, job in jobs.items())


@contextmanager
def serve(folder: Path, command: Sequence[str] = COMMAND) -> Iterator[tuple[str, float]]:
    """Run the command in a folder until the block ends; yields its address and the seconds until it answered.

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
        yield f"http://127.0.0.1:{port}/", time.perf_counter() - began
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether the server returns its configuration, which requires the page to be built."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        try:
            connection.request("GET", "/config")
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


def visit(browser: "Browser", url: str) -> tuple[float, float]:
    """Return seconds to first paint and to a responsive form, in a visit with an empty cache."""
    with opened(browser, url) as page:
        usable = page.wait_for_function(USABLE).json_value()
        paint = page.wait_for_function(FIRST_PAINT).json_value()
        # Wait, so that pending requests of this visit do not slow the next one.
        page.locator(VERDICT.format(role="select")).wait_for()
    return paint / 1000, usable / 1000


def compare_first(browser: "Browser", url: str) -> float:
    """Return seconds from the click that reveals the test rows of a pair to its verdict on them."""
    with opened(browser, url) as page:
        page.locator(VERDICT.format(role="select")).wait_for()
        page.locator("#reveal").click()
        page.locator("#really-reveal").wait_for()
        return float(page.evaluate(CLICK_TO_VERDICT, ["#really-reveal", VERDICT.format(role="test")])) / 1000


def compare_again(browser: "Browser", url: str, times: int) -> list[float]:
    """Return seconds from switching back to the validation rows to their verdict, once per repetition."""
    seconds, wanted = [], VERDICT.format(role="select")
    with opened(browser, url) as page:
        page.locator(wanted).wait_for()
        for _ in range(times):
            page.locator("#reveal").click()
            page.locator("#really-reveal").click()
            page.locator(VERDICT.format(role="test")).wait_for()
            page.locator("#back-to-validation").wait_for()
            seconds.append(page.evaluate(CLICK_TO_VERDICT, ["#back-to-validation", wanted]) / 1000)
    return seconds


@contextmanager
def opened(browser: "Browser", url: str) -> "Iterator[Page]":
    """Open a page in a fresh browser profile."""
    with closing(browser.new_context()) as context:
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        page = context.new_page()
        page.goto(url, wait_until="commit")
        yield page
