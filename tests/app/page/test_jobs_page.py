"""The list of jobs, existing runs, and results that name their runs, in a real browser."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from driving import ENDLESS, LONG, SHORT, comes_to, fill, preset, settled, state
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


def train(page, label):
    page.get_by_role("button", name=label, exact=True).click()


def listed(page, wanted):
    """Return the listed jobs in a state."""
    return page.locator(f'[data-testid=listed][data-state="{wanted}"]')


def test_every_job_is_listed_and_cancelled_from_any_tab(server, browse):
    page = browse()
    preset(page, "B", "plain")
    fill(page, "B", ENDLESS)
    train(page, "Train B")
    comes_to(page, "B", 2)
    first = page.get_by_test_id("job-B").get_attribute("data-run")
    # Training the same settings again returns the same job.
    train(page, "Train B")
    expect(page.get_by_test_id("all-jobs")).to_have_attribute("data-n", "1", timeout=LONG)
    expect(page.get_by_test_id("job-B")).to_have_attribute("data-run", first)
    # Another value makes another job, and the first one stays in the list.
    fill(page, "B", {"Epochs": "99999"})
    train(page, "Train B")
    expect(page.get_by_test_id("job-B")).not_to_have_attribute("data-run", first, timeout=LONG)
    expect(listed(page, "running")).to_have_count(1, timeout=LONG)
    expect(listed(page, "queued")).to_have_count(1)
    expect(listed(page, "running")).to_have_attribute("data-run", first)
    expect(listed(page, "running")).to_contain_text("Epochs (train.schedule.epochs) = 100000")

    other = browse()
    expect(other.get_by_test_id("all-jobs")).to_have_attribute("data-n", "2", timeout=LONG)
    other.locator(f'[data-cancel="{first}"]').click()
    expect(other.locator(f'[data-run="{first}"][data-state=cancelled]')).to_contain_text("is kept", timeout=LONG)
    expect(listed(other, "running")).to_have_count(1, timeout=LONG)
    page.reload()
    expect(page.get_by_test_id("all-jobs")).to_have_attribute("data-n", "1", timeout=LONG)
    listed(page, "running").get_by_role("button").click()
    expect(page.get_by_test_id("all-jobs")).to_have_attribute("data-n", "0", timeout=LONG)
    assert not list(server.store.glob("runs/.*"))


def test_runs_of_the_command_line_are_found_and_used(server, browse):
    here = server.folder / "elsewhere"
    changes = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0}
    bench = {"name": "ab", "caches": ["digits"], "preset": "plain", "base": changes, "store": "elsewhere/kept"}
    bench |= {"toggles": {"B": {"train.loss.logit_adjustment.tau": 1.0}}}
    (server.folder / "ab.yaml").write_text(json.dumps(bench))
    command = [sys.executable, "-m", "frostbench.app.cli", "bench", "run", "ab.yaml"]
    subprocess.run(command, cwd=server.folder, check=True, capture_output=True)
    page = browse()
    expect(page.get_by_test_id("jobs")).to_contain_text("6 in elsewhere/kept", timeout=LONG)
    for side in "AB":
        page.get_by_label(f"{side}: Cache", exact=True).select_option("digits")
        preset(page, side, "plain")
        fill(page, side, SHORT)
    fill(page, "B", {"Logit adjustment: strength τ": "1"})
    train(page, "Train A and B, then compare")
    state(page, "job-A", "done")
    state(page, "job-B", "done")
    expect(page.get_by_test_id("job-B")).to_contain_text("3 found in the store, none to train")
    expect(page.get_by_test_id("card-A")).to_contain_text("some in elsewhere/kept")
    state(page, "compare", "done")
    assert not list(server.store.glob("jobs/*/process.json"))
    shutil.rmtree(here)
    expect(page.get_by_role("button", name="Download head A")).to_be_enabled(timeout=LONG)


def test_results_name_their_own_runs_and_are_out_of_date_when_the_form_changes(server, browse):
    page = browse()
    for side in "AB":
        preset(page, side, "plain")
        fill(page, side, SHORT)
    fill(page, "B", {"Epochs": "5"})
    train(page, "Train A and B, then compare")
    state(page, "compare", "done")
    runs = page.locator("#compare").get_by_test_id("runs")
    expect(runs).to_contain_text(
        "plain with Epochs (train.schedule.epochs) = 5, Minimum steps (train.schedule.min_steps) = 0 · seeds 0, 1, 2"
    )
    expect(runs).to_contain_text(re.compile(r"cache \w+ · ended \d\d \w+ \d{4}"))
    old = page.locator("#compare").get_by_test_id("outdated")
    expect(old).to_be_hidden()
    fill(page, "B", {"Epochs": "6"})
    expect(old).to_be_visible()
    expect(page.get_by_test_id("job-B")).to_contain_text("the form has changed since")
    expect(page.get_by_test_id("job-B").locator(".fp-outdated")).to_be_visible()
    expect(page.get_by_test_id("job-A").locator(".fp-outdated")).to_be_hidden()
    expect(runs).to_contain_text("(train.schedule.epochs) = 5")
    page.reload()
    expect(old).to_be_visible(timeout=LONG)
    fill(page, "B", {"Epochs": "5"})
    expect(old).to_be_hidden()
    page.get_by_label("B: Preset").select_option("full")
    settled(page)
    expect(old).to_be_visible()


def test_controls_are_disabled_until_the_values_are_loaded(untouched, chromium):
    context = chromium.new_context(viewport={"width": 1366, "height": 900})
    page = context.new_page()
    held = []
    # Hold back the server's first reply about the form.
    page.route("**/component_server/**", lambda route: held.append(route))
    page.goto(untouched.url)
    expect(page.get_by_test_id("form")).to_have_attribute("data-state", "asking", timeout=LONG)
    buttons = [page.locator(f"#{name}") for name in ("train-A", "train-B", "train-both", "copy")]
    for button in buttons:
        expect(button).to_be_disabled()
    for label in ("A: Preset", "A: Cache", "Seeds"):
        box = page.get_by_label(label, exact=True)
        expect(box).to_be_disabled()
        assert box.evaluate("e => getComputedStyle(e).color") == "rgba(0, 0, 0, 0)"
    for route in held:
        route.continue_()
    page.unroute("**/component_server/**")
    settled(page)
    for button in buttons:
        expect(button).to_be_enabled(timeout=LONG)
    expect(page.get_by_label("A: Preset")).to_have_value("baseline")
    expect(page.get_by_label("A: Preset")).to_be_enabled()
    context.close()
