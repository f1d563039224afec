"""The server in a real browser: jobs outlive it, tabs find it again, and other host names are refused."""

import urllib.error
import urllib.request

import pytest
from driving import ENDLESS, LONG, SHORT, cancel_all, jobs_of, train
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def epoch(page):
    """Return the epoch of the first job in the list."""
    text = page.locator("section.jobs li[data-job]").first.inner_text()
    return int(text.split("epoch ")[1].split()[0]) if "epoch " in text else 0


def comes_to(page, wanted):
    """Wait until the first job has trained a number of epochs."""
    page.wait_for_function(
        "n => +(document.querySelector('section.jobs li[data-job]')?.textContent.match(/epoch (\\d+)/)?.[1] ?? 0) >= n",
        arg=wanted,
        timeout=LONG,
    )


def test_a_job_outlives_a_reload_a_second_browser_and_the_server(server, browse):
    job = train(server, ENDLESS)
    page = browse("train#jobs")
    comes_to(page, 2)
    page.reload()
    comes_to(page, epoch(page) + 2)
    other = browse("train#jobs")
    comes_to(other, epoch(other) + 2)
    reached = epoch(other)
    server.kill()
    server.start()
    page.goto(server.url + "train#jobs")
    comes_to(page, reached + 2)
    assert [(one["id"], one["state"]) for one in jobs_of(server)] == [(job, "running")]
    page.get_by_role("button", name="Cancel").first.click()
    # Cancelling takes at most 5 s; the rest is for the page to poll.
    ended = page.locator("section.jobs li[data-state=cancelled]")
    expect(ended).to_contain_text("is kept", timeout=10_000)
    assert jobs_of(server)[0]["state"] == "cancelled"


def test_a_tab_of_an_earlier_server_reloads_itself(server, browse):
    page = browse("train?a=plain&b=ridge")
    page.evaluate("window.earlier = true")
    server.kill()
    server.start()
    page.get_by_label("B: Preset").select_option("plain")
    page.wait_for_function("() => window.earlier === undefined", timeout=LONG)
    expect(page.get_by_label("A: Preset")).to_have_value("plain", timeout=LONG)


def test_a_server_that_is_gone_is_told(server, browse):
    page = browse("train?a=plain&b=ridge")
    server.kill()
    page.get_by_label("B: Preset").select_option("plain")
    expect(page.locator("#alert")).to_contain_text("The server does not respond. Is", timeout=LONG)
    server.start()


def test_a_failed_job_shows_its_log(server, browse):
    for part in server.folder.glob("copy/shards/*"):
        part.write_bytes(b"not a shard")
    train(server, SHORT, cache="copy")
    page = browse("train#jobs")
    jobs = page.locator("section.jobs")
    expect(jobs).to_contain_text("failed", timeout=LONG)
    jobs.get_by_role("button", name="Show log").first.click()
    expect(jobs.locator("pre").first).to_contain_text("copy", timeout=LONG)


def test_a_foreign_host_name_is_refused(untouched):
    request = urllib.request.Request(untouched.url, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 400
    refused.value.close()
    with urllib.request.urlopen(untouched.url, timeout=10) as answer:
        assert answer.status == 200


def test_stopped_runs_are_kept_and_listed(server, browse):
    train(server, ENDLESS)
    page = browse("train#jobs")
    comes_to(page, 3)
    cancel_all(server)
    expect(page.locator("section.jobs")).to_contain_text("is kept", timeout=LONG)
    page.goto(server.url + "runs")
    expect(page.locator("tbody tr:not(.space)")).to_have_count(1, timeout=LONG)
