"""Makes the pictures of docs/tour.md anew: `python tests/shared/tour.py`, with Chromium on the PATH.

A server is started in an empty folder, and the page is used as the tour describes it, from photos to an exported head.
The photos are scikit-learn's digits, with six labels that are wrong on purpose.
"""

import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import expect, sync_playwright
from sklearn.datasets import load_digits

OUT = Path(__file__).parents[2] / "docs" / "images"
CHROMIUM = next(path for path in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser")) if path.exists())
CLASSES = {0: 120, 1: 90, 3: 60, 8: 40, 9: 25}
WRONG = 6
LONG = 180_000
WIDTH, HEIGHT = 1280, 800


def write_photos(folder):
    """Write a folder of images per class; the first images of two classes are in each other's folder."""
    x, y = load_digits(return_X_y=True)
    for digit, number in CLASSES.items():
        for place, i in enumerate(np.flatnonzero(y == digit)[:number]):
            label = {3: 8, 8: 3}.get(digit, digit) if place < WRONG // 2 else digit
            path = folder / f"digit {label}" / f"{digit} {i:04d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC).save(path)


@contextmanager
def served(folder):
    """Run `frostbench app` in a folder; yields its address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "frostbench.app.cli", "app", "--port", str(port)]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/frostbench/api/runs", timeout=60).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        running.terminate()
        running.wait(30)


def ready(page, **states):
    """Wait for states of the tab, such as checks="ready"."""
    wanted = {"state": "ready"} | states
    page.locator("main" + "".join(f"[data-{name}={value}]" for name, value in wanted.items())).wait_for(timeout=LONG)


def keep(page, out, name):
    """Keep a picture of the window."""
    page.wait_for_timeout(400)
    path = out / f"tour-{name}.png"
    page.screenshot(path=path)
    # 256 colours take a quarter of the space.
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def add_photos(page, out):
    page.get_by_label("A folder on the server’s disk").fill("photos")
    page.get_by_role("button", name="Look at it").click()
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    page.get_by_label("Name of the data set").fill("digits")
    page.get_by_label("Name of the data set").press("Tab")
    page.wait_for_timeout(1000)
    keep(page, out, "1-photos")
    page.get_by_role("button", name="Embed").click()
    page.locator("main[data-photos=done]").wait_for(timeout=LONG)
    page.get_by_role("link", name="Open the data set").click()


def check_labels(page, out):
    ready(page, checks="ready")
    page.locator(".map[data-state=ready]").wait_for(timeout=LONG)
    keep(page, out, "2-data")
    queue = page.locator("#labels")
    queue.scroll_into_view_if_needed()
    keep(page, out, "3-labels")
    queue.press("c")
    page.wait_for_timeout(1500)


def train(page, out, url):
    page.goto(f"{url}train?data=digits&a=baseline&b=logreg&labels=corrected&seeds=5")
    ready(page, check="ready")
    keep(page, out, "4-train")
    button = page.get_by_role("button", name="Train A and B")
    expect(button).to_be_enabled(timeout=LONG)
    button.click()
    page.get_by_role("link", name="Compare A with B").wait_for(timeout=LONG)


def look_at_runs(page, out, url):
    page.goto(f"{url}runs")
    ready(page)
    page.wait_for_timeout(3000)
    keep(page, out, "5-runs")
    page.goto(f"{url}compare")
    ready(page)
    page.wait_for_timeout(1000)
    keep(page, out, "6-compare")


def predict(page, out, url):
    page.goto(f"{url}predict")
    ready(page)
    page.get_by_label("Or a folder on the server’s disk").fill("new")
    page.get_by_role("button", name="Predict its images").click()
    page.locator("main[data-state=done]").wait_for(timeout=LONG)
    keep(page, out, "7-predict")


def export(page, out, url):
    page.goto(f"{url}export")
    ready(page)
    keep(page, out, "8-export")
    with page.expect_download(timeout=LONG) as waiting:
        page.locator("[data-kind=measured]").click()
    return waiting.value.path()


def write_new(folder):
    """Write digits that were not used, and a picture of noise."""
    x, y = load_digits(return_X_y=True)
    folder.mkdir()
    for digit in CLASSES:
        for i in np.flatnonzero(y == digit)[130:134]:
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC).save(folder / f"{digit} {i:04d}.png")
    noise = np.random.default_rng(0).integers(0, 256, (96, 96, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "something else.png")


def make(out):
    """Use the page from an empty folder on, and write the pictures to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright, served(home) as url:
        write_photos(Path(home) / "photos")
        write_new(Path(home) / "new")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{url}data")
        ready(page)
        add_photos(page, out)
        check_labels(page, out)
        train(page, out, url)
        look_at_runs(page, out, url)
        predict(page, out, url)
        head = export(page, out, url)
        assert head.stat().st_size > 0
        browser.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
