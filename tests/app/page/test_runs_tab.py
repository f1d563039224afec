"""The tab Runs in a browser: runs of the command line, found, filtered, sorted, pinned and compared."""

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def names(page):
    return page.locator(".runs tbody .name").all_inner_texts()


def compared(page):
    expect(page.locator("section[aria-labelledby=effects][data-state=ready]")).to_be_visible(timeout=LONG)


def test_runs_of_the_command_line_are_listed_and_compared(open_runs):
    page = open_runs("runs")
    assert len(names(page)) == 4
    assert {"ridge", "lda"} <= {name.split(",")[0] for name in names(page)}
    compared(page)
    assert page.locator(".effects .chip").count() == 3
    expect(page.get_by_text("Bars are 95 % intervals over ")).to_be_visible()
    expect(page.locator("#live")).to_contain_text("differ")


def test_another_metric_shows_its_own_differences(open_runs):
    page = open_runs("runs")
    compared(page)
    before = page.locator(".effects").inner_text()
    page.get_by_role("group", name="Metric").get_by_role("button", name="Log loss").click()
    assert page.locator(".effects").inner_text() != before
    expect(page.get_by_text("← better")).to_be_visible()
    assert "metric=nll" in page.url


def test_settings_are_found_by_option_and_value(open_runs):
    page = open_runs("runs")
    page.get_by_label("Find settings").fill("smoothing 0.3")
    expect(page.get_by_text("1 setting of 4")).to_be_visible()
    assert "Label smoothing ε 0.3" in names(page)[0]
    page.get_by_label("Find settings").fill("no such thing")
    expect(page.get_by_text("0 settings of 4")).to_be_visible()


def test_a_column_sorts_both_ways(open_runs):
    page = open_runs("runs")
    first = names(page)
    page.get_by_role("button", name="Setting", exact=True).click()
    assert names(page) == sorted(first, key=str.lower)
    expect(page.locator("th[data-key=name]")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Setting", exact=True).click()
    assert names(page) == sorted(first, key=str.lower, reverse=True)


def test_the_pinned_setting_is_in_the_address(open_runs):
    page = open_runs("runs")
    compared(page)
    page.locator("tr", has_text="ridge").get_by_role("button", name="Pin as A").click()
    compared(page)
    expect(page.locator(".effects .title").first).to_contain_text("against ridge")
    page.reload()
    compared(page)
    expect(page.locator(".effects .title").first).to_contain_text("against ridge")
    expect(page.get_by_role("button", name="Pin as A", pressed=True)).to_have_count(1)
    expect(page.locator("tr", has_text="ridge").get_by_role("button", name="Pin as A")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_chosen_settings_alone_are_compared(open_runs):
    page = open_runs("runs")
    compared(page)
    page.get_by_label("Choose lda").check()
    expect(page.get_by_role("toolbar")).to_contain_text("1 chosen")
    page.get_by_role("button", name="Compare these").click()
    expect(page.locator(".effects .chip")).to_have_count(1, timeout=LONG)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("toolbar")).to_be_hidden()
    expect(page.locator(".effects .chip")).to_have_count(3, timeout=LONG)


def test_the_theme_is_kept(open_runs):
    page = open_runs("runs")
    page.get_by_role("button", name="Switch between light and dark").click()
    theme = page.locator("html").get_attribute("data-theme")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", theme)


def test_nothing_overflows_on_a_phone(open_runs):
    page = open_runs("runs", width=400)
    compared(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_folder_without_runs_says_what_to_do(look):
    page = look("runs")
    expect(page.get_by_text("No runs yet in results.")).to_be_visible()
    expect(page.get_by_text("frostbench bench run factorial --cache CACHE")).to_be_visible()


def test_the_keyboard_keeps_its_place_when_parts_are_drawn_anew(open_runs):
    page = open_runs("runs")
    compared(page)
    page.get_by_role("group", name="Metric").get_by_role("button", name="Log loss").press("Enter")
    expect(page.get_by_role("group", name="Metric").get_by_role("button", name="Log loss")).to_be_focused()
    page.get_by_label("Choose lda").press("Space")
    expect(page.get_by_role("toolbar")).to_contain_text("1 chosen")
    expect(page.get_by_label("Choose lda")).to_be_focused()


def test_what_to_do_next_leads_to_the_tabs_that_do_it(open_runs):
    page = open_runs("runs")
    steps = page.get_by_role("region", name="What to do next")
    expect(page.locator(".steps[data-state=ready]")).to_be_visible(timeout=LONG)
    expect(steps.locator("[data-step=no_groups]")).to_contain_text("validation images count as independent")
    expect(steps.get_by_role("listitem")).to_have_count(4)
    row = page.locator(".runs tbody tr", has_text="Label smoothing")
    row.get_by_role("button", name="Pin as B").click()
    page.locator(".runs tbody tr", has_text="ridge").get_by_role("button", name="Pin as A").click()
    line = steps.locator("[data-step=several_options]")
    if steps.get_by_role("button", name="more").count():
        steps.get_by_role("button", name="more").click()
    expect(line).to_contain_text("A and B differ in", timeout=LONG)
    # The steps are those of the pair that was pinned, not of the one before.
    expect(line).to_contain_text("Label smoothing", timeout=LONG)
    line.get_by_role("button", name="Load both into Train").click()
    page.wait_for_url("**/train?**")
    page.locator("main[data-state=ready]").wait_for()
    assert "a=ridge" in page.url
