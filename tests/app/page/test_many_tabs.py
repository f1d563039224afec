"""Many tabs of one browser, which share six connections, so that no tab may keep one open."""

import json
import urllib.request

import pytest
from driving import ENDLESS, LONG, fill, preset, settled, state
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
TABS = 10


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
    settled(first)
    preset(first, "A", "plain")
    fill(first, "A", ENDLESS)
    first.get_by_role("button", name="Train A", exact=True).click()
    state(first, "job-A", "running")
    tabs = [first, *(context.new_page() for _ in range(TABS - 1))]
    for tab in tabs[1:]:
        tab.goto(server.url)
    for tab in tabs:
        state(tab, "job-A", "running")
        settled(tab)
    for tab in reversed(tabs):
        preset(tab, "B", "plain")
        expect(tab.get_by_label("B: Preset")).to_have_value("plain")
    seen = [int(tab.get_by_test_id("job-A").get_attribute("data-n")) for tab in tabs]
    for tab, epoch in zip(tabs, seen, strict=True):
        tab.wait_for_function(
            "n => +document.querySelector('[data-testid=job-A]').dataset.n > n", arg=epoch, timeout=LONG
        )
    tabs[-1].get_by_role("button", name="Cancel A").click()
    for tab in tabs:
        state(tab, "job-A", "cancelled")
    context.close()
