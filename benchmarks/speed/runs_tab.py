"""How long users of the tab Runs wait with 10,000 runs: for the list, and for a filter and a sorted column."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from frostbench.benchmarks.runs.all_runs import write_records
from frostbench.benchmarks.speed.many_runs import write_many_runs
from frostbench.benchmarks.speed.serving import PATIENCE_SECONDS, STORE, Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RUNS, QUICK_RUNS = 10_000, 1_000
LIST_SECONDS, ACT_SECONDS = 1.0, 0.1

# The second of two frames begins once the first, which contains the new rows, is on screen.
ACT = """([target, text]) => new Promise(resolve => {
    const element = document.querySelector(target), began = performance.now();
    if (text === null) element.click();
    else { element.value = text; element.dispatchEvent(new Event('input', { bubbles: true })); }
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
})"""
SEARCH, HEADING = ".tools input[type=search]", "th[data-key=nll] button"


class Times(NamedTuple):
    """Seconds of one kind of waiting.

    Attributes:
        name: name of the figure.
        seconds: one value per repetition.
        limit: goal in seconds.
    """

    name: str
    seconds: list[float]
    limit: float


def write_runs(folder: Path, quick: bool) -> None:
    """Write a store with its flat view of all runs, as a finished bench leaves it."""
    write_many_runs(folder / STORE, QUICK_RUNS if quick else RUNS)
    write_records(folder / STORE)


def measure(browser: "Browser", served: Served, repeats: int) -> Iterator[Times]:
    """Yield the times of the first answer, of later ones, of filters and of sorting, for a server just started."""
    answers = [seconds_to_list(served) for _ in range(repeats + 1)]
    yield Times("app.runs_first", answers[:1], LIST_SECONDS)
    yield Times("app.runs", answers[1:], LIST_SECONDS)
    with closing(browser.new_page()) as page:
        page.goto(f"{served.url}runs")
        page.locator("main[data-state=ready]").wait_for(timeout=1000 * PATIENCE_SECONDS)
        texts = ["arcface", "smoothing 0.1", ""] * repeats
        yield Times("app.runs_filter", [page.evaluate(ACT, [SEARCH, text]) / 1000 for text in texts], ACT_SECONDS)
        yield Times("app.runs_sort", [page.evaluate(ACT, [HEADING, None]) / 1000 for _ in texts], ACT_SECONDS)


def seconds_to_list(served: Served) -> float:
    """Return the seconds until the server has sent the list of runs."""
    began = time.perf_counter()
    served.ask("runs")
    return time.perf_counter() - began
