"""How long users of the page wait: `frostbench app` in its own process, with headless Chromium.

No peer does the same job, so each figure is a goal divided by our seconds: 1 just meets it, 2 takes half of it.

- ready: from starting the command to its first answer with data; first_paint and usable: a visit of the tab Train with
  an empty browser cache; toggle: from a changed option to the checked form; tab: from the link of another tab to it.
- memory: what is the server's alone after the tab Train was used; resident memory, which counts libraries that all
  processes share, is in the name of the figure.
- compare: two runs with 20,000 images of 200 classes, from the request to the answer in the browser, each time other
  runs; compare_again: from *Swap* to the verdict on screen.
- runs_*: see `runs_tab`; map_*, thumbnails, relabel: see `data_tab`.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frostbench.benchmarks.speed import data_tab, runs_tab
from frostbench.benchmarks.speed.fake_runs import write_fake_runs
from frostbench.benchmarks.speed.harness import Figure, figure
from frostbench.benchmarks.speed.serving import READY, STORE, Served, open_browser, opened, serve, start_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser

READY_SECONDS, PAINT_SECONDS, USABLE_SECONDS = 5.0, 0.5, 1.5
TOGGLE_SECONDS, TAB_SECONDS, COMPARE_SECONDS = 0.1, 0.1, 0.5
MEMORY_MB = 400.0
ROWS, CLASSES = 20_000, 200
TRAIN = "train?a=plain&b=plain"

FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
USABLE = "() => document.querySelector('main')?.dataset.state === 'ready' && performance.now()"
TOGGLE = """([label, value]) => new Promise(resolve => {
    const main = document.querySelector('main'), field = document.querySelector(`[aria-label="${label}"]`);
    let asked = false;
    const watch = new MutationObserver(() => {
        asked ||= main.dataset.check === 'asking';
        if (!asked || main.dataset.check !== 'ready') return;
        watch.disconnect();
        resolve(performance.now() - began);
    });
    watch.observe(main, { attributes: true });
    const began = performance.now();
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    field.dispatchEvent(new Event('change', { bubbles: true }));
})"""
COMPARE = """async ([store, a, b]) => {
    const token = document.querySelector('meta[name="frostbench-token"]').content, began = performance.now();
    const reply = await fetch('/frostbench/api/compare', { method: 'POST', headers: { 'x-frostbench-token': token },
        body: JSON.stringify({ store, a: [a], b: [b] }) });
    const found = await reply.json();
    if (found.error) throw new Error(found.error);
    return performance.now() - began;
}"""
# The second of the two frames begins once the first, which contains the verdict, is on screen.
SWAP = """() => new Promise(resolve => {
    const main = document.querySelector('main'), began = performance.now();
    const watch = new MutationObserver(() => {
        if (main.dataset.state !== 'ready') return;
        watch.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
    });
    [...document.querySelectorAll('button')].find(button => button.textContent === 'Swap').click();
    watch.observe(main, { attributes: true });
})"""


def figures(quick: bool) -> Iterator[Figure]:
    """Yield all figures; `quick` starts the server once, repeats the rest less often and uses smaller data."""
    starts, repeats = (1, 3) if quick else (3, 7)
    with start_playwright() as playwright, closing(open_browser(playwright)) as browser:
        with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
            yield from _visits(Path(folder), browser, starts, repeats)
        with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
            runs_tab.write_runs(Path(folder), quick)
            with serve(Path(folder)) as served:
                for times in runs_tab.measure(browser, served, repeats):
                    yield within(times.name, times.seconds, times.limit)
        with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
            data_tab.write_caches(Path(folder), quick)
            with serve(Path(folder)) as served:
                for times in data_tab.measure(browser, served, repeats):
                    yield within(times.name, times.seconds, times.limit)


def _visits(folder: Path, browser: "Browser", starts: int, repeats: int) -> Iterator[Figure]:
    """Yield start, visits, memory and comparisons, in a folder with a small cache and pairs of large runs."""
    data_tab.write_cache(folder / "small", 300, 16, 3)
    pairs = [write_fake_runs(folder / STORE, ROWS, CLASSES, number=number) for number in range(1, repeats + 1)]
    ready = []
    for _ in range(starts - 1):
        with serve(folder) as served:
            ready.append(served.seconds)
    with serve(folder) as served:
        yield within("app.ready", [*ready, served.seconds], READY_SECONDS)
        seen = [visit(browser, served.url) for _ in range(repeats)]
        yield within("app.first_paint", [paint for paint, _ in seen], PAINT_SECONDS)
        yield within("app.usable", [usable for _, usable in seen], USABLE_SECONDS)
        yield within("app.toggle", toggle(browser, served.url, repeats), TOGGLE_SECONDS)
        yield within("app.tab", switch(browser, served.url, repeats), TAB_SECONDS)
        resident, own = served.megabytes()
        ratio, unit = [MEMORY_MB / own], f"goal of {MEMORY_MB:.0f} MB / MB of the server's own"
        yield figure(f"app.memory ({resident:.0f} MB resident)", [(own, MEMORY_MB)], ratio, goal=1.0, unit=unit)
        with opened(browser, served.url + "runs") as page:
            page.locator(READY).wait_for()
            first = [float(page.evaluate(COMPARE, [STORE, *pair])) / 1000 for pair in pairs]
        yield within("app.compare", first, COMPARE_SECONDS)
        yield within("app.compare_again", compare_again(browser, served, pairs[0], repeats), COMPARE_SECONDS)


def within(name: str, seconds: Sequence[float], limit: float) -> Figure:
    """Compare seconds with a limit; the goal is a ratio of 1.

    >>> within("x", [4.0, 1.0, 2.0], 8.0).ratio
    4.0
    """
    unit = f"limit of {limit:g} s / our seconds"
    return figure(name, [(s, limit) for s in seconds], [limit / s for s in seconds], goal=1.0, unit=unit)


def visit(browser: "Browser", url: str) -> tuple[float, float]:
    """Return seconds to first paint and to a usable form, in a visit of the tab Train with an empty cache."""
    with opened(browser, url + TRAIN) as page:
        usable = page.wait_for_function(USABLE).json_value()
        paint = page.wait_for_function(FIRST_PAINT).json_value()
        page.locator("main[data-check=ready]").wait_for()
    return paint / 1000, usable / 1000


def toggle(browser: "Browser", url: str, times: int) -> list[float]:
    """Return seconds from changing the epochs of B to the checked form; other values each time."""
    with opened(browser, url + TRAIN) as page:
        page.locator("main[data-check=ready]").wait_for()
        return [page.evaluate(TOGGLE, ["B: Epochs", str(60 + i)]) / 1000 for i in range(times)]


def switch(browser: "Browser", url: str, times: int) -> list[float]:
    """Return seconds from following the link of another tab, Runs and Data in turn, to that tab."""
    found = []
    with opened(browser, url + "data") as page:
        page.locator(READY).wait_for()
        for i in range(times):
            tab = ("/runs", "/data")[i % 2]
            page.evaluate("tab => { sessionStorage.began = Date.now(); location.href = tab; }", tab)
            page.wait_for_url(f"**{tab}*")
            done = "() => document.querySelector('main')?.dataset.state === 'ready' && Date.now()"
            found.append(
                (page.wait_for_function(done).json_value() - int(page.evaluate("sessionStorage.began"))) / 1000
            )
    return found


def compare_again(browser: "Browser", served: Served, pair: Sequence[str], times: int) -> list[float]:
    """Return seconds from *Swap* to the verdict on screen, of runs that were compared before."""
    settings: list[dict[str, Any]] = served.ask("runs")["settings"]
    a, b = (next(one["id"] for one in settings if key in one["keys"]) for key in pair)
    with opened(browser, f"{served.url}compare?store={STORE}&a={a}&b={b}") as page:
        page.locator(READY).wait_for()
        return [page.evaluate(SWAP) / 1000 for _ in range(times + 1)][1:]
