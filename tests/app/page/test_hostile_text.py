"""Text from untrusted files is shown literally, never as HTML."""

import json
import re
from dataclasses import asdict, fields, replace

import pytest
from driving import LONG, settled
from pages import Page
from playwright.sync_api import expect
from queued_jobs import made_by_hand, this_process

from frostbench.app.jobs import Job, curves, read
from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.records import Process, Request, Status
from frostbench.app.page.form import CACHE_ROW, first_form
from frostbench.app.page.layout import title_html
from frostbench.app.page.pieces import difference_html, reasons_html
from frostbench.app.page.progress import lines_html, progress_html
from frostbench.app.page.state import view
from frostbench.app.page.trying import answers_html
from frostbench.app.sides import ROWS
from frostbench.app.trial import Trial
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import StoreError, run_folder
from frostbench.heads.posthoc.pipeline import Layers

EVIL = "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
ID = "20261128-034512-123456-a1b2"


def check_harmless(text, *, is_shown=True):
    page = Page(text)
    assert page.wrong == []
    assert not [tag for tag, attrs in page.tags if tag in ("img", "script") or "onerror" in attrs]
    assert not is_shown or EVIL in text.replace("&quot;", '"').replace("&#x27;", "'").replace("&gt;", ">").replace(
        "&lt;", "<"
    )


def hostile(value):
    if isinstance(value, str):
        return [EVIL]
    if isinstance(value, dict):
        return [EVIL, {"0": EVIL}, {EVIL: "5d1f"}]
    if isinstance(value, list | tuple):
        return [EVIL, [EVIL]]
    return [EVIL, [EVIL], {"a": EVIL}, 10**400, True]


@pytest.mark.parametrize("name", [each.name for each in fields(Status)])
def test_an_untrusted_status_is_shown_as_text(tmp_path, name):
    usual = Status("running", "m", 1.0, 2.0, 1, 2, 3, 4, 0.5, 2, {0: "5d1f"}, ("w",), 1, 1, 0.5)
    for value in hostile(asdict(usual)[name]):
        folder = made_by_hand(tmp_path, this_process())
        (folder / "status.json").write_text(json.dumps(asdict(usual) | {name: value}))
        job = read(tmp_path, folder.name)
        check_harmless(lines_html({"A": job}), is_shown=False)
        check_harmless(progress_html({"A": job}, {}), is_shown=False)
        is_text = name == "message" or (name == "warnings" and isinstance(value, list))
        assert ("is damaged" in job.message) != (is_text or (name == "keys" and value == {"0": EVIL}))
        for key in job.keys.values():
            if key == EVIL:
                with pytest.raises(StoreError, match="A run key must consist of letters"):
                    run_folder(tmp_path, key)


@pytest.mark.parametrize("field", ["side", "title", "bench", "slots", "device", "created"])
def test_the_types_of_an_untrusted_request_are_checked(tmp_path, field):
    folder = made_by_hand(tmp_path, this_process())
    usual = Request("A", "", {}, 1, "cpu", 1.0)
    wrong = [EVIL] if field in ("slots", "created", "bench") else [[EVIL]]
    (folder / "request.json").write_text(json.dumps(asdict(usual) | {field: wrong[0]}))
    with pytest.raises(ValueError, match=f"is damaged \\(wrong type of {field}\\)"):
        read(tmp_path, folder.name)


def test_malformed_epochs_are_skipped(tmp_path):
    folder = made_by_hand(tmp_path, this_process())
    valid = {"seed": 0, "epoch": 1, "epochs": 9, "loss": 0.5, "macro_f1_fg": 0.5}
    lines = [
        valid,
        valid | {"macro_f1_fg": EVIL},
        valid | {"epoch": EVIL},
        valid | {"loss": [1]},
        valid | {"epoch": 2},
        7,
    ]
    texts = [*map(json.dumps, lines), '{"seed": 0, "epoch"', "[" * 10_000, json.dumps({"seed": EVIL})]
    (folder / "epochs.jsonl").write_text("\n".join(texts) + "\n")
    found = curves(tmp_path, folder.name)
    assert found == {0: {"epoch": [1, 2], "loss": [0.5, 0.5], "macro_f1_fg": [0.5, 0.5]}}
    check_harmless(progress_html({"A": read(tmp_path, folder.name)}, {"A": found}), is_shown=False)


def test_messages_of_jobs_are_escaped():
    job = Job(id=ID, side="A", state="failed", message=EVIL, warnings=(EVIL,), title=EVIL)
    check_harmless(progress_html({"A": job}, {}, {"A": EVIL}))
    check_harmless(lines_html({"A": replace(job, id=EVIL)}))


def test_texts_of_a_form_are_escaped(tmp_path):
    here = Workspace(tmp_path, (), tmp_path / EVIL)
    check_harmless(title_html(here))
    form = first_form(here).with_side("B", {"columns": [EVIL], "background": [EVIL], "cache": EVIL})
    seen = view(form.with_side("A", {"cache": "other"}), here)
    check_harmless(difference_html(seen))
    wrong = replace(seen, errors=dict.fromkeys("AB", EVIL), warnings=dict.fromkeys("AB", (EVIL,)))
    check_harmless(difference_html(wrong))
    out_of_use = replace(seen, disabled={"A": {ROWS[0].key: EVIL}, "B": {}})
    check_harmless("".join(reasons_html((CACHE_ROW, *ROWS), out_of_use).values()))


def test_class_names_and_reasons_of_answers_are_escaped():
    import torch

    even = torch.full((2,), 0.5)
    trial = Trial(EVIL, (EVIL, "b"), even.log(), even, even, Layers(bias=torch.tensor([0.0, 9.0])))
    check_harmless(answers_html({"A": trial, "B": EVIL}, 1, 0))


@pytest.mark.slow
def test_an_untrusted_store_executes_nothing_in_a_browser(server, browse):
    for number, (state, epoch) in enumerate((("failed", 3), ("running", EVIL))):
        folder = server.store / "jobs" / f"20261128-03451{number}-123456-a1b2"
        folder.mkdir(parents=True)
        write_json(folder / "request.json", Request("AB"[number], EVIL, {}, 1, "cpu", 1.0))
        status = asdict(Status("failed", EVIL, 1.0, 2.0, warnings=(EVIL,), keys={0: EVIL}))
        (folder / "status.json").write_text(json.dumps(status | {"state": state, "epoch": epoch}))
        (folder / "epochs.jsonl").write_text(json.dumps({"seed": 0, "epoch": EVIL}) + "\n")
        (folder / "log.txt").write_text(EVIL)
        write_json(folder / "process.json", Process(pid=2**22 + 1, boot="another", start=1.0))
    page = browse()
    expect(page.get_by_test_id("card-A")).to_contain_text(EVIL, timeout=LONG)
    expect(page.get_by_test_id("card-B")).to_contain_text("wrong type of epoch", timeout=LONG)
    page.get_by_label("B: Classifier", exact=True).select_option("zero_shot")
    settled(page)
    page.get_by_label("B: Zero-shot: weights file", exact=True).fill(EVIL)
    expect(page.get_by_test_id("error-B")).to_contain_text("<script>window.hacked=1</script>", timeout=LONG)
    # Neither the job nor the form can be trained, but they are not the same.
    expect(page.get_by_test_id("job-B")).to_have_class(re.compile("fp-is-outdated"), timeout=LONG)
    page.get_by_role("button", name="Train B", exact=True).click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("<script>window.hacked=1</script>", timeout=LONG)
    assert page.evaluate("window.hacked") is None
