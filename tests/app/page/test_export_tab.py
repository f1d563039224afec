"""The tab Export in a browser: files, what is known of a head, and how to use it."""

from zipfile import ZipFile

import pytest
from driving import LONG
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def page(open_runs):
    return open_runs("export")


def download(page, kind, tmp_path):
    with page.expect_download(timeout=LONG) as waiting:
        page.locator(f"[data-kind={kind}]").click()
    waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
    return tmp_path / waiting.value.suggested_filename


@pytest.mark.parametrize("kind", ["measured", "refitted", "ensemble"])
def test_a_head_is_downloaded(page, tmp_path, kind):
    packed = download(page, kind, tmp_path)
    assert packed.name.startswith(f"{kind}-")
    with ZipFile(packed) as opened:
        names = set(opened.namelist())
    assert {"head/ensemble.json"} <= names if kind == "ensemble" else {"head/card.json"} <= names
    expect(page.locator(f"[data-kind={kind}]")).to_have_attribute("data-state", "done")
    expect(page.locator("#live")).to_contain_text("is downloaded.")


def test_a_report_is_downloaded(page, tmp_path):
    text = download(page, "report", tmp_path).read_text(encoding="utf-8")
    assert "<html" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_the_card_has_numbers_data_and_limits(page):
    card = page.locator(".model")
    expect(card).to_contain_text("Macro F1")
    expect(card).to_contain_text("training, ")
    expect(card).to_contain_text("Test images stay closed here")
    card.get_by_text("All 3 classes, the worst first").click()
    expect(card.locator(".perclass tbody tr")).to_have_count(3)


def test_commands_are_shown_and_copied(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("Train and export it again on the command line").click()
    commands = page.locator("pre[aria-labelledby=again]")
    expect(commands).to_contain_text("frostbench bench run again.yaml")
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "frostbench predict head" in page.evaluate("navigator.clipboard.readText()")


def test_another_setting_has_its_own_address_and_the_back_button_returns(page):
    first = page.get_by_label("Setting").input_value()
    other = page.locator("select[aria-label=Setting] option").nth(1).get_attribute("value")
    page.get_by_label("Setting").select_option(other)
    expect(page).to_have_url(page.url.split("/export")[0] + f"/export?setting={other}")
    page.locator("main[data-state=ready]").wait_for(timeout=LONG)
    page.go_back()
    expect(page.get_by_label("Setting")).to_have_value(first, timeout=LONG)


def test_a_setting_that_is_gone_is_told(open_runs):
    page = open_runs("export?setting=none")
    expect(page.locator("#alert")).to_contain_text("keeps no head; another one is shown")


def test_it_leads_to_trying_the_head(page):
    page.get_by_role("link", name="Try it on images").click()
    expect(page).to_have_url(page.url.split("/predict")[0] + f"/predict?heads={page.url.split('heads=')[1]}")
    expect(page.locator(".heads ol li")).to_have_count(1, timeout=LONG)


def test_nothing_overflows_on_a_phone(open_runs):
    page = open_runs("export", 400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_folder_without_heads_says_what_to_do(look):
    expect(look("export").locator("main")).to_contain_text("No head is kept in")
