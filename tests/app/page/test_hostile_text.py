"""Text from untrusted files is shown literally on every tab, never as HTML."""

import json
from dataclasses import asdict

import pytest
from driving import LONG
from playwright.sync_api import expect

from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.records import Process, Request, Status

EVIL = "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
pytestmark = pytest.mark.slow


def test_untrusted_jobs_execute_nothing_in_a_browser(server, browse):
    for number, (state, epoch) in enumerate((("failed", 3), ("running", EVIL))):
        folder = server.store / "jobs" / f"20261128-03451{number}-123456-a1b2"
        folder.mkdir(parents=True)
        write_json(folder / "request.json", Request("AB"[number], EVIL, {}, 1, "cpu", 1.0))
        status = asdict(Status("failed", EVIL, 1.0, 2.0, warnings=(EVIL,), keys={0: EVIL}))
        (folder / "status.json").write_text(json.dumps(status | {"state": state, "epoch": epoch}))
        (folder / "log.txt").write_text(EVIL)
        write_json(folder / "process.json", Process(pid=2**22 + 1, boot="another", start=1.0))
    page = browse("train#jobs")
    jobs = page.locator("section.jobs")
    expect(jobs).to_contain_text(EVIL, timeout=LONG)
    expect(jobs).to_contain_text("wrong type of epoch", timeout=LONG)
    jobs.get_by_role("button", name="Show log").first.click()
    expect(jobs.locator("pre").first).to_contain_text("<script>window.hacked=1</script>", timeout=LONG)
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("tab", ["data", "images", "train", "runs", "compare", "predict", "export"])
def test_class_and_file_names_stay_text_on_every_tab(open_runs, tab):
    page = open_runs(tab)
    page.wait_for_function("() => document.querySelector('main').dataset.state === 'ready'")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
