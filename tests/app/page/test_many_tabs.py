"""Many tabs of one browser, which share six connections, so that no tab may keep one open."""

import json
import urllib.request

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
LONG = 90_000
TABS = 10
ENDLESS = {"Epochs": "100000", "Batch size": "1000", "Early stopping: patience (epochs)": "100000"}


def ready(page):
    expect(page.get_by_test_id("form")).to_have_attribute("data-state", "ready", timeout=LONG)


def test_no_event_of_the_page_keeps_a_connection(untouched):
    with urllib.request.urlopen(untouched.url + "config", timeout=30) as answer:
        config = json.load(answer)
    assert config["connect_heartbeat"] is False
    assert [each["type"] for each in config["components"] if each["type"] == "state"] == []
    assert len(config["dependencies"]) > 5
    assert [each["id"] for each in config["dependencies"] if each["queue"] is not False] == []


def test_ten_tabs_of_one_browser_respond_while_a_job_runs(chromium, server):
    context = chromium.new_context()
    first = context.new_page()
    first.goto(server.url)
    ready(first)
    first.get_by_label("A: Preset").select_option("plain")
    ready(first)
    for label, value in ENDLESS.items():
        first.get_by_label(f"A: {label}", exact=True).fill(value)
    ready(first)
    first.get_by_role("button", name="Train A", exact=True).click()
    expect(first.get_by_test_id("job-A")).to_have_attribute("data-state", "running", timeout=LONG)
    tabs = [first, *(context.new_page() for _ in range(TABS - 1))]
    for tab in tabs[1:]:
        tab.goto(server.url)
    for tab in tabs:
        expect(tab.get_by_test_id("job-A")).to_have_attribute("data-state", "running", timeout=LONG)
        ready(tab)
    for tab in reversed(tabs):
        tab.get_by_label("B: Preset").select_option("plain")
        ready(tab)
        expect(tab.get_by_label("B: Preset")).to_have_value("plain")
    seen = [int(tab.get_by_test_id("job-A").get_attribute("data-n")) for tab in tabs]
    for tab, epoch in zip(tabs, seen, strict=True):
        tab.wait_for_function(
            "n => +document.querySelector('[data-testid=job-A]').dataset.n > n", arg=epoch, timeout=LONG
        )
    tabs[-1].get_by_role("button", name="Cancel A").click()
    for tab in tabs:
        expect(tab.get_by_test_id("job-A")).to_have_attribute("data-state", "cancelled", timeout=LONG)
    context.close()
