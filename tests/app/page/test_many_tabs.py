"""Many tabs of one browser, which share six connections, so that no tab may keep one open."""

import pytest
from driving import ENDLESS, LONG, cancel_all, jobs_of, train
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
TABS = ("data", "images", "train", "runs", "compare", "predict", "export", "train", "runs", "data")


def test_ten_tabs_of_one_browser_respond_while_a_job_runs(chromium, server):
    train(server, ENDLESS)
    context = chromium.new_context()
    pages = [context.new_page() for _ in TABS]
    for page, tab in zip(pages, TABS, strict=True):
        page.goto(server.url + tab)
    for page in pages:
        page.locator("main[data-state=ready]").wait_for(timeout=LONG)
        page.bring_to_front()
        expect(page.locator("#job-pill")).to_contain_text("1 training", timeout=LONG)
    # The last tab still answers, and the first one too.
    for page in (pages[-1], pages[0]):
        page.bring_to_front()
        page.reload()
        page.locator("main[data-state=ready]").wait_for(timeout=LONG)
    cancel_all(server)
    pages[2].bring_to_front()
    expect(pages[2].locator("#job-pill")).to_be_hidden(timeout=LONG)
    context.close()
    assert [job["state"] for job in jobs_of(server)] == ["cancelled"]


def test_a_tab_keeps_no_connection(look):
    page = look("runs")
    kinds = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.initiatorType)")
    assert kinds
    assert "eventsource" not in kinds
    assert page.evaluate("typeof window.gradio_config") == "undefined"
