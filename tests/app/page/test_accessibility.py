"""Every tab in both themes is free of serious findings of axe-core, the library that browsers' audits use."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
SERIOUS = ("serious", "critical")
TABS = (
    "data?cache=digits",
    "data?add=1",
    "images?cache=digits",
    "train?a=plain&b=ridge",
    "runs",
    "compare",
    "predict",
    "export",
)


def check(page):
    """Fail for each serious finding, with the elements it concerns."""
    found = Axe().run(page).response
    assert found["passes"]
    wrong = [one for one in found["violations"] if one["impact"] in SERIOUS]
    told = [f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes'][:4]]}" for one in wrong]
    assert told == []


def themed(page, theme):
    page.evaluate("theme => localStorage.setItem('frostbench_theme', theme)", theme)
    page.reload()
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", TABS)
def test_a_tab_has_no_serious_finding(open_runs, tab, theme):
    check(themed(open_runs(tab), theme))


@pytest.mark.parametrize("tab", ["data", "images", "train", "runs", "compare", "predict", "export"])
def test_an_empty_tab_has_no_serious_finding(look, tab):
    check(look(tab))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_open_image_has_no_serious_finding(open_runs, theme):
    page = themed(open_runs("images?cache=digits"), theme)
    page.locator(".cell").first.press("Enter")
    expect(page.locator("dialog")).to_be_visible(timeout=LONG)
    check(page)


def test_the_skip_link_leads_to_the_content(open_runs):
    page = open_runs("runs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
