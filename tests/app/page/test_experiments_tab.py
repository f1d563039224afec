"""Experiments of the tab Train in a browser: each change alone and all together, and a search around B."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
SHORT = "".join(f"&{side}.train.schedule.{name}" for side in "ab" for name in ("epochs=3", "min_steps=0"))
CHANGES = f"train?a=plain&b=plain&seeds=2&train=changes{SHORT}"
SEARCH = f"train?a=plain&b=plain&seeds=1&train=search{SHORT}"
RATES = "&try.train.optim%3Cadamw%3E.lr=list%3A+0.001%2C+0.01%2C+0.1"


def opened(browse, query, width=1366):
    page = browse(query, width)
    page.locator("section.run:not([data-state=asking])").wait_for(timeout=LONG)
    return page


def planned(page):
    page.locator("section.run[data-state=ready]").wait_for(timeout=LONG)


def test_each_change_is_planned_trained_and_compared_in_runs(browse):
    page = opened(browse, f"{CHANGES}&b.train.loss.smoothing.epsilon=0.1&b.train.optim.lr=0.01")
    plan = page.locator(".plan")
    expect(plan).to_contain_text("4 settings × 2 seeds: 8 runs")
    for name in ("Label smoothing ε: 0.1", "Learning rate: 0.01", "all together"):
        expect(page.locator(".run .settings")).to_contain_text(name)
    expect(page.locator("section.run pre")).to_contain_text("frostbench compare changes.yaml")
    page.get_by_role("button", name="Train each change").click()
    link = page.get_by_role("link", name="What makes a difference")
    expect(link).to_be_visible(timeout=LONG)
    expect(plan).to_contain_text("8 runs, all there already", timeout=LONG)
    expect(page.locator("#jobs li")).to_have_count(1)
    assert "job-changes=" in page.url
    link.click()
    page.locator("[aria-labelledby=effects][data-state=ready]").wait_for(timeout=LONG)
    expect(page.locator(".effects .title").first).to_contain_text("against plain")
    expect(page.locator("tr[data-chosen]")).to_have_count(4)
    expect(page.get_by_role("button", name="only the chosen")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".found")).to_have_text("4 settings of 4")


def test_equal_sides_have_no_changes_to_train(look):
    page = opened(look, CHANGES)
    expect(page.locator("#reason")).to_have_text("A and B are equal. Change a setting of B.")
    expect(page.get_by_role("button", name="Train each change")).to_be_disabled()


def test_options_are_added_to_a_search_by_keyboard_and_stated_in_the_address(look):
    page = opened(look, "train?a=plain&b=plain&seeds=1")
    page.get_by_label("Search around B").press("Space")
    expect(page.locator("#reason")).to_contain_text("A search needs an option whose values it tries. Add one.")
    page.get_by_label("Add an option to the search").select_option(label="Learning rate")
    values = page.get_by_label("Values of Learning rate", exact=True)
    expect(values).to_be_focused()
    values.fill("0.001, 0.01, 0.1")
    planned(page)
    expect(page.locator(".plan")).to_contain_text("3 settings × 1 seed: 3 runs")
    address = page.url
    page.reload()
    planned(page)
    expect(page.get_by_label("Values of Learning rate", exact=True)).to_have_value("0.001, 0.01, 0.1")
    assert page.url == address
    page.get_by_role("button", name="Remove Learning rate from the search").press("Enter")
    expect(page.get_by_label("Add an option to the search")).to_be_focused()
    expect(page.locator("#reason")).to_contain_text("A search needs an option")


def test_an_error_in_a_search_is_at_its_field(look):
    page = opened(look, SEARCH + RATES)
    values = page.get_by_label("Values of Learning rate", exact=True)
    values.fill("0.01, -1")
    expect(values).to_have_attribute("aria-invalid", "true", timeout=LONG)
    expect(page.locator(".tried .error")).to_contain_text("This must be greater than 0, and -1 is not.")
    expect(page.get_by_role("button", name="Start the search")).to_be_disabled()
    page.get_by_label("How settings are chosen").select_option("random")
    page.get_by_label("How values of Learning rate are drawn").select_option("log")
    values = page.get_by_label("Values of Learning rate", exact=True)
    values.fill("0.001, 0.1")
    page.get_by_label("Trials", exact=True).fill("6")
    planned(page)
    expect(values).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator(".plan")).to_contain_text("6 settings × 1 seed: 6 runs")


def test_a_search_by_halving_says_its_best_setting(browse):
    page = opened(browse, f"{SEARCH}{RATES}&search.rounds=2")
    planned(page)
    expect(page.locator(".plan")).to_contain_text("Round 1: 3 settings for 1 epoch")
    expect(page.locator(".plan")).to_contain_text("Round 2: 1 setting for 3 epochs")
    page.get_by_role("button", name="Start the search").click()
    link = page.get_by_role("link", name="See the settings")
    expect(link).to_be_visible(timeout=LONG)
    expect(page.locator("section.last")).to_contain_text("Best on the validation images: Learning rate")
    expect(page.locator("#jobs li")).to_contain_text("3 settings of Learning rate, halving in 2 rounds")
    expect(page.locator(".plan")).to_contain_text("4 runs in 2 rounds, all there already", timeout=LONG)


def test_a_cancelled_search_goes_on(browse):
    page = opened(browse, f"{SEARCH}{RATES}&b.train.schedule.epochs=100000&b.train.early_stop.patience=100000")
    planned(page)
    page.get_by_role("button", name="Start the search").click()
    line = page.locator("#jobs li[data-state=running]", has_text="0 of 3 runs")
    expect(line).to_be_visible(timeout=LONG)
    line.get_by_role("button", name="Cancel").click()
    cancelled = page.locator("#jobs li[data-state=cancelled]")
    expect(cancelled).to_be_visible(timeout=LONG)
    cancelled.get_by_role("button", name="Go on").click()
    line = page.locator("#jobs li:is([data-state=queued], [data-state=running])")
    expect(line).to_have_count(1, timeout=LONG)
    line.get_by_role("button", name="Cancel").click()
    expect(page.locator("#jobs li[data-state=cancelled]")).to_have_count(2, timeout=LONG)


@pytest.mark.parametrize("query", [f"{CHANGES}&b.train.optim.lr=0.01", f"{SEARCH}{RATES}&search.method=random"])
def test_nothing_overflows_on_a_phone_and_nothing_is_inaccessible(look, query):
    page = opened(look, query, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
