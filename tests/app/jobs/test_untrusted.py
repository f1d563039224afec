"""Files of jobs that others may have written: their types are checked, and their texts stay texts."""

import json
from dataclasses import asdict, fields

import pytest
from queued_jobs import made_by_hand, this_process

from frostbench.app.jobs import curves, read
from frostbench.app.jobs.records import Request, Status
from frostbench.app.workbench.train.job_list import as_tree
from frostbench.benchmarks.runs.store import StoreError, run_folder

EVIL = "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>"


def hostile(value):
    if isinstance(value, str):
        return [EVIL]
    if isinstance(value, dict):
        return [EVIL, {"0": EVIL}, {EVIL: "5d1f"}]
    if isinstance(value, list | tuple):
        return [EVIL, [EVIL]]
    return [EVIL, [EVIL], {"a": EVIL}, 10**400, True]


@pytest.mark.parametrize("name", [each.name for each in fields(Status)])
def test_an_untrusted_status_is_checked(tmp_path, name):
    usual = Status("running", "m", 1.0, 2.0, 1, 2, 3, 4, 0.5, 2, {0: "5d1f"}, ("w",), 1, 1, 0.5)
    for value in hostile(asdict(usual)[name]):
        folder = made_by_hand(tmp_path, this_process())
        (folder / "status.json").write_text(json.dumps(asdict(usual) | {name: value}))
        job = read(tmp_path, folder.name)
        listed = json.loads(json.dumps(as_tree(job), allow_nan=False))
        assert (listed["id"], listed["label"]) == (folder.name, "failed" if job.state == "failed" else "training")
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
