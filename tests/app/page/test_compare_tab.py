"""The tab Compare in a browser: two settings, their verdict, classes, images and probabilities."""

import shutil
from pathlib import Path

import pytest
from driving import LONG
from playwright.sync_api import expect
from short_benches import SHORT

pytestmark = pytest.mark.slow

TOGGLES = {"slow": {"train.optim.lr": 3e-6}, "ridge": {"preset": "ridge"}}


@pytest.fixture(scope="module")
def server(mislabelled, serve, tmp_path_factory):
    """A server in a folder with a cache and three settings of the command line on it, two seeds each."""
    from frostbench.benchmarks.runs.runner import run_bench
    from frostbench.benchmarks.settings.plan import BenchSpec

    folder = tmp_path_factory.mktemp("compare_tab")
    shutil.copytree(mislabelled, folder / "wrong")
    bench = {"caches": (str(folder / "wrong"),), "store": str(folder / "mine" / "results"), "preset": "plain"}
    list(run_bench(BenchSpec(**bench, base=SHORT, toggles=TOGGLES, seeds=(0, 1))))
    with serve(folder) as started:
        yield started


@pytest.fixture
def page(browse):
    return chosen(browse("compare"), "slow", "plain")


NAMES = {"slow": "plain, Learning rate 3e-06", "plain": "plain, Learning rate 0.02", "ridge": "ridge"}


def chosen(page, a, b):
    """Choose the settings of both sides by name."""
    for side, name in (("B", b), ("A", a)):
        select = page.get_by_label(f"Setting {side}")
        options = select.locator("option").all_inner_texts()
        (label,) = (text for text in options if text.startswith(NAMES[name]))
        select.select_option(label=label)
        ready(page)
    return page


def ready(page):
    expect(page.locator("main[data-state=ready]")).to_be_visible(timeout=LONG)


def answers(page):
    return page.locator(".trust tbody tr").all_inner_texts()


def test_the_verdict_names_difference_interval_and_images(page):
    verdict = page.locator(".said .main")
    expect(verdict).to_contain_text("in Macro F1: B − A = +")
    expect(verdict).to_contain_text("95 % interval")
    expect(page.get_by_text("On the same ")).to_contain_text("validation images")
    expect(page.locator("#live")).to_contain_text("in Macro F1")
    page.locator("[data-metric=nll]").click()
    expect(verdict).to_contain_text("in Log loss: B − A = −")
    assert "metric=nll" in page.url


def test_sides_are_swapped_and_the_back_button_returns(page):
    before = page.locator(".said .main").inner_text()
    page.get_by_role("button", name="Swap").click()
    expect(page.locator(".said .main")).to_contain_text("B − A = −")
    page.go_back()
    expect(page.locator(".said .main")).to_have_text(before)
    page.reload()
    ready(page)
    expect(page.locator(".said .main")).to_have_text(before)


def test_choosing_the_setting_of_the_other_side_swaps(page):
    label = page.get_by_label("Setting A").locator("option:checked").inner_text()
    page.get_by_label("Setting B").select_option(label=label)
    ready(page)
    assert page.get_by_label("Setting B").locator("option:checked").inner_text() == label
    assert page.get_by_label("Setting A").locator("option:checked").inner_text().startswith(NAMES["plain"])


def test_images_that_b_fixes_are_shown_with_both_answers(page):
    kinds = page.get_by_role("group", name="Which images")
    number = int(kinds.get_by_role("button", name="B fixes").inner_text().split()[-1])
    assert number > 0
    assert page.locator(".shot").count() == min(number, 240)
    first = page.locator(".shot").first
    expect(first).to_contain_text("A ✗")
    expect(first).to_contain_text("B ✓")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.shot img')].slice(0, 8).every(i => i.naturalWidth > 0)"
    )
    kinds.get_by_role("button", name="Both wrong").click()
    if page.locator(".shot").count():
        expect(page.locator(".shot").first).to_contain_text("B ✗")


def test_an_image_opens_with_its_reasons(page):
    first = page.locator(".shot").first
    name = first.get_attribute("data-id")
    first.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=name)
    expect(dialog).to_contain_text("seed 1")
    expect(dialog.locator(".nearest li")).to_have_count(6)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(first).to_be_focused()


def test_a_changed_confusion_filters_the_images(page):
    cell = page.locator(".confusions .cell").first
    label, said = cell.get_attribute("title").split(" called ")
    cell.click()
    expect(page.locator(".gallery .chip")).to_contain_text(f"{label} called {said}")
    assert page.locator(".shot").count() > 0
    for title in page.locator(".shot").evaluate_all("all => all.map(one => one.title)"):
        assert title.endswith(f"\n{label}")
    page.get_by_role("button", name="Show all again").click()
    expect(page.locator(".gallery .chip")).to_have_count(0)


def test_classes_are_sorted_found_and_lead_to_their_images(page):
    names = page.locator(".classes tbody .link")
    assert names.count() == 3
    page.get_by_label("Find class").fill("digit 8")
    expect(names).to_have_count(1)
    names.first.click()
    page.wait_for_url("**/images?**")
    ready(page)
    expect(page.get_by_label("Class", exact=True)).to_have_value("digit 8")
    expect(page.get_by_label("Trained setting")).not_to_have_value("")


def test_a_threshold_recomputes_what_is_answered(page, server):
    from frostbench.app.workbench.runs.run_list import list_settings
    from frostbench.benchmarks.runs.store import read_outcomes

    store = Path(server.folder / "mine" / "results")
    settings = {one.name: one for one in list_settings([store])[0]}
    plain = next(one for name, one in settings.items() if one.preset == "plain" and "3e-06" not in name)
    page.get_by_label("Answer only from this probability").fill("80")
    runs = [read_outcomes(store, key, "select") for key in plain.keys]
    answered = [run[run["confidence"].round(4) >= 0.8] for run in runs]
    share = 100 * sum(map(len, answered)) / sum(map(len, runs))
    right = 100 * sum((one["label"] == one["predicted"]).sum() for one in answered) / sum(map(len, answered))
    wrong = sum((one["label"] != one["predicted"]).sum() for one in answered) / 2
    assert answers(page)[1].split("\t") == ["B", f"{share:.1f} %", f"{right:.1f} %", f"{wrong:.1f}"]


def test_test_images_stay_closed_until_asked(page):
    page.get_by_text("Test images", exact=True).click()
    expect(page.get_by_text("Looked at 0 times so far")).to_be_visible()
    page.get_by_role("button", name="Look at the test images").click()
    expect(page.get_by_text("These are test images. They were looked at 1 time;")).to_be_visible()
    expect(page.get_by_text("On the same ")).to_contain_text("test images")
    page.get_by_role("button", name="Back to validation").click()
    expect(page.get_by_text("On the same ")).to_contain_text("validation images")


def test_two_runs_of_the_tab_runs_are_put_side_by_side(browse):
    page = browse("runs")
    boxes = page.locator(".runs tbody input")
    boxes.nth(0).check()
    expect(page.get_by_role("link", name="Side by side")).to_have_count(0)
    boxes.nth(1).check()
    page.get_by_role("link", name="Side by side").click()
    page.wait_for_url("**/compare?**")
    ready(page)
    expect(page.locator(".said .main")).to_be_visible()


def test_a_setting_that_is_gone_is_told(browse):
    page = browse("compare?a=none&b=neither")
    expect(page.get_by_role("alert")).to_contain_text("no longer there")


def test_nothing_overflows_on_a_phone(browse):
    page = browse("compare", width=400)
    ready(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_folder_without_two_settings_says_what_to_do(look):
    page = look("compare")
    expect(page.get_by_text("Two settings with the same seeds on the same images are needed")).to_be_visible()
