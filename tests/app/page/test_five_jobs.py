"""Five jobs that people come with, each done on the page in at most ten steps, in a browser.

A step is what a person does: opens an address, presses a button, chooses or enters something.
"""

import csv
import shutil
from zipfile import ZipFile

import numpy as np
import pytest
from driving import LONG
from PIL import Image
from playwright.sync_api import expect
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow
MOST_STEPS = 10
SHORT = "".join(f"&{side}.train.schedule.{name}" for side in "ab" for name in ("epochs=4", "min_steps=0"))


class Steps:
    """Counts what a person does on a page."""

    def __init__(self, page):
        self.page = page
        self.number = 0

    def _count(self):
        self.number += 1
        assert self.number <= MOST_STEPS, "the job takes more than ten steps"

    def press(self, role, name, **how):
        self._count()
        where = self.page.get_by_role(role, name=name, **how)
        expect(where.first).to_be_enabled(timeout=LONG)
        where.first.click()

    def enter(self, label, value):
        self._count()
        self.page.get_by_label(label, exact=True).fill(value)

    def choose(self, label, **what):
        self._count()
        self.page.get_by_label(label, exact=True).first.select_option(**what)

    def check(self, label):
        self._count()
        self.page.get_by_label(label).check()

    def key(self, key):
        self._count()
        self.page.keyboard.press(key)

    def download(self, selector, folder):
        self._count()
        with self.page.expect_download(timeout=LONG) as waiting:
            self.page.locator(selector).click()
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path


def ready(page):
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)


def write_digits(folder, counts, name=lambda digit, i: f"{i:04d}.png"):
    x, y = load_digits(return_X_y=True)
    for digit, count in counts.items():
        for place, i in enumerate(np.flatnonzero(y == digit)[:count]):
            path = folder / f"digit {digit}" / name(digit, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = (x[i].reshape(8, 8) * (255 / 16)).astype(np.uint8)
            Image.fromarray(pixels).resize((48, 48), Image.Resampling.BICUBIC).save(path)


@pytest.fixture
def empty(serve, tmp_path):
    """A server in a folder without a cache."""
    with serve(tmp_path, caches=()) as started:
        yield started


def trained(page):
    """Wait for the jobs that were started, and return the link to their comparison."""
    link = page.get_by_role("link", name="Compare A with B")
    expect(link).to_be_visible(timeout=2 * LONG)
    return link


def test_an_ecologist_with_video_groups_and_a_long_tail(empty, chromium_page):
    """Photos from videos, some species rare: groups stay together, and the rare classes are looked at."""
    write_digits(
        empty.folder / "traps", {0: 60, 1: 40, 8: 12}, lambda digit, i: f"video{digit}{i // 4:02d}_{i:04d}.png"
    )
    page = chromium_page(empty.url + "data")
    do = Steps(page)
    do.enter("A folder on the server’s disk", "traps")
    do.press("button", "Look at it")
    page.locator("main[data-measured=yes]").wait_for(timeout=LONG)
    do.enter("Groups, as a regular expression (optional)", r"(video\d+)_")
    do.press("button", "Apply")
    expect(page.locator("#photo-groups-note")).to_contain_text("28 groups", timeout=LONG)
    do.press("button", "Embed")
    page.locator("main[data-photos=done]").wait_for(timeout=LONG)
    do.press("link", "Open the data set")
    expect(page.locator("[data-tile=Groups] .value")).to_have_text("28", timeout=LONG)
    do.press("link", "Train", exact=True)
    page.goto(page.url.split("/train")[0] + f"/train?data=traps&a=plain&b=plain&seeds=2{SHORT}")
    page.locator("main[data-check=ready]").wait_for(timeout=LONG)
    do.check("B: Long-tail logit adjustment")
    expect(page.locator("#changes-title")).to_contain_text("B changes 1 setting", timeout=LONG)
    do.press("button", "Train A and B")
    trained(page).click()
    ready(page)
    expect(page.locator(".said .main")).to_contain_text("Macro F1", timeout=LONG)
    expect(page.locator(".classes")).to_contain_text("digit 8")


def test_an_inspector_with_costs(open_runs, tmp_path):
    """A defect called good costs ten times as much: the costs decide, and the export keeps them."""
    page = open_runs("compare")
    do = Steps(page)
    if page.locator(".decide[data-state=missing]").count():
        do.press("button", "Compute the logits")
    expect(page.locator(".decide")).to_have_attribute("data-state", "ready", timeout=LONG)
    do.enter("No answer below", "0.5")
    expect(page.locator(".decide")).to_have_attribute("data-state", "ready", timeout=LONG)
    do.press("button", "Use in export")
    expect(page.locator("#live")).to_contain_text("Kept for the export of", timeout=LONG)
    setting = page.get_by_label("Setting A").input_value()
    page.goto(page.url.split("/compare")[0] + f"/export?setting={setting}")
    ready(page)
    expect(page.locator(".files")).to_contain_text("with the decision kept in Compare: no answer below 0.5")
    packed = do.download("[data-kind=measured]", tmp_path)
    with ZipFile(packed) as opened:
        assert b'"abstain_below": 0.5' in opened.read("head/card.json").replace(b'":0.5', b'": 0.5')
    page.goto(page.url.split("/export")[0] + f"/predict?heads={setting}")
    ready(page)
    images = sorted((open_runs.folder / "digits").parent.glob("new/[0-9]*")) or [blank(tmp_path)]
    page.set_input_files("#files", images[:3])
    page.locator("main[data-state=done]").wait_for(timeout=LONG)
    expect(page.locator("#cut-said")).to_contain_text("With the decision kept in Compare: no answer below 0.5.")


def blank(folder):
    path = folder / "blank.png"
    Image.new("RGB", (48, 48), "grey").save(path)
    return path


def test_a_curator_who_cleans_labels(serve, mislabelled, chromium_page, tmp_path):
    """Six labels are wrong: six keys correct them, and both sides are trained with them."""
    shutil.copytree(mislabelled, tmp_path / "wrong")
    with serve(tmp_path, caches=()) as server:
        page = chromium_page(server.url + "data?cache=wrong")
        page.locator("main[data-checks=ready]").wait_for(timeout=LONG)
        do = Steps(page)
        do.press("button", "Check them")
        for number in range(1, 7):
            do.key("c")
            expect(page.locator("[data-tile='Labels to check']")).to_contain_text(
                f"{number} label{'s' if number > 1 else ''} checked", timeout=LONG
            )
        with (tmp_path / "wrong.labels.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert {row["new"] for row in rows} == {"digit 0", "digit 1"}
        assert all(f"really {row['new'][-1]} " in row["id"] for row in rows)
        page.goto(f"{server.url}train?data=wrong&a=lda&b=ridge&seeds=2&labels=corrected")
        page.locator("main[data-check=ready]").wait_for(timeout=LONG)
        expect(page.get_by_label("with 6 checked labels")).to_be_checked()
        do.press("button", "Train A and B")
        trained(page)
        expect(page.locator("#jobs li").first).to_contain_text("wrong.labels.csv", timeout=LONG)


def test_an_engineer_who_chooses_a_backbone(browse, server):
    """Two caches of the same images: A and B use one each, and are compared image by image."""
    page = browse("train?data=digits&b.data=copy&a=lda&b=ridge&seeds=2")
    page.locator("main[data-check=ready]").wait_for(timeout=LONG)
    expect(page.locator("#changes-title")).to_contain_text("B changes", timeout=LONG)
    do = Steps(page)
    do.press("button", "Train A and B")
    trained(page).click()
    ready(page)
    expect(page.locator(".said .main")).to_contain_text("Macro F1", timeout=LONG)
    expect(page.locator(".options")).to_contain_text("Classifier")


def test_a_researcher_with_an_ablation(browse, server, tmp_path):
    """Two changes, each alone and together, with several seeds; the table goes into a paper."""
    page = browse(
        f"train?a=plain&b=plain&seeds=2&train=changes{SHORT}&b.train.loss.smoothing.epsilon=0.1&b.train.optim.lr=0.01"
    )
    do = Steps(page)
    do.press("button", "Train each change")
    do.press("link", "What makes a difference")
    page.locator("[aria-labelledby=effects][data-state=ready]").wait_for(timeout=LONG)
    expect(page.locator(".effects .title").first).to_contain_text("against plain")
    expect(page.locator("tr[data-chosen]")).to_have_count(4)
    table = do.download("text=CSV", tmp_path)
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert do.number <= 3
