"""Jobs that train, one after the other, and those that cannot."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from queued_jobs import (
    bench_of,
    instead_of_pydantic,
    is_in,
    made_by_hand,
    pid_of,
    records_of,
    this_process,
    wait_for,
    wait_until,
)

from frostbench.app.jobs import JobError, cancel, curves, jobs, log_tail, newest, read, submit
from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Request, Status


@pytest.mark.slow
def test_a_job_trains_its_seeds_and_the_next_one_waits_and_finds_them(store, cache):
    first = submit(store, "A", bench_of(cache, seeds=(1, 0)), title="plain <b>")
    second = submit(store, "B", bench_of(cache, seeds=(1, 0)))
    waiting = read(store, second)
    assert (waiting.state, waiting.ahead, waiting.message) == ("queued", 1, "Waiting for 1 other job.")
    assert (jobs(store), newest(store, "A"), newest(store, "B")) == ([second, first], first, second)

    done = wait_for(store, first, is_in("done"))
    assert (done.side, done.title, done.message) == ("A", "plain <b>", "0 found, 2 trained")
    assert (done.seed_number, done.seeds, done.epoch, done.epochs, done.trained, done.found) == (2, 2, 4, 4, 2, 0)
    assert done.created <= done.began <= done.ended
    assert done.bench["store"] == str(store)
    assert [warning[:21] for warning in done.warnings[:2]] == ["No groups are given: ", "the epoch with the lo"]
    records = records_of(store, done)
    assert [(seed, record.seed, record.reason) for seed, record in records.items()] == [
        (1, 1, "all_epochs"),
        (0, 0, "all_epochs"),
    ]
    assert done.best == records[0].curve["macro_f1_fg"][done.best_epoch - 1]
    assert done.best_epoch == records[0].epoch
    drawn = curves(store, first)
    assert {seed: curve["epoch"] for seed, curve in drawn.items()} == {1: [1, 2, 3, 4], 0: [1, 2, 3, 4]}
    for seed, curve in drawn.items():
        assert curve["loss"] == pytest.approx(records[seed].curve["loss"])
        assert curve["macro_f1_fg"] == pytest.approx(records[seed].curve["macro_f1_fg"])
    assert f"seed 0: run {done.keys[0]}, all_epochs" in log_tail(store, first)
    assert log_tail(store, first, lines=1).startswith("seed 0")

    found = wait_for(store, second, is_in("done"))
    assert (found.message, found.keys, found.found) == ("2 found, 0 trained", done.keys, 2)
    assert found.began >= done.ended
    assert curves(store, second) == {}
    cancel(store, second)
    assert read(store, second) == found


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ("ValueError", "no such rule."),
        ("OSError", "no such rule."),
        ("TypeError", "Internal error: TypeError: no such rule."),
    ],
)
def test_an_exception_is_reported_in_one_line_and_logged(store, cache, tmp_path, monkeypatch, raised, message):
    instead_of_pydantic(monkeypatch, tmp_path / "odd", f"raise {raised}('no such rule.\\nSee the docs.')")
    job_id = submit(store, "A", bench_of(cache))
    pid = pid_of(store, job_id)
    job = wait_for(store, job_id, is_in("failed"))
    assert job.message == message
    assert "Traceback (most recent call last)" in log_tail(store, job_id)
    assert log_tail(store, job_id, lines=2) == f"{raised}: no such rule.\nSee the docs."
    wait_until(lambda: not psutil.pid_exists(pid), "no zombie is left")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base": {"train.optim.rate": 1}}, "row 'plain': train.optim.rate: there is no such option here"),
        ({"caches": []}, "A job must have one row on one cache, got 1 row on 0 caches"),
        ({"grid": {"train.optim.lr": [0.1, 0.2]}}, "A job must have one row on one cache, got 3 rows on 1 cache"),
        ({"caches": ["/nowhere"]}, "/nowhere"),
    ],
)
def test_a_bench_that_cannot_be_trained_is_refused(tmp_path, cache, fields, message):
    from frostbench.app.jobs.training import train

    bench = bench_of(cache) | {"store": str(tmp_path)} | fields
    with pytest.raises((ValueError, OSError), match=message):
        train(Request("A", "", bench, 1, "cpu", 0.0), Progress(tmp_path))


def test_a_job_begins_when_a_slot_is_free(store, cache, tmp_path, monkeypatch):
    at_work = made_by_hand(store, this_process(), state="running")
    instead_of_pydantic(monkeypatch, tmp_path / "odd", "raise ValueError('came to train')")
    # A package of the same name in the current directory must not shadow ours.
    (tmp_path / "frostbench").mkdir()
    (tmp_path / "frostbench" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    monkeypatch.chdir(tmp_path)
    beside = submit(store, "A", bench_of(cache), slots=2)
    begun = wait_for(store, beside, is_in("failed"))
    assert (begun.message, begun.began is None) == ("came to train", False)
    # The next in line imports the training code only when its turn is near.
    after = submit(store, "A", bench_of(cache))
    wait_until(lambda: (store / "jobs" / after / "status.json").exists(), "the next in line is there")
    far = Status(state="running", seed_number=1, seeds=1, epoch=2, epochs=1000, pace=1.0)
    write_json(at_work / "status.json", far)
    time.sleep(1.5)
    assert read(store, after).state == "queued"
    write_json(at_work / "status.json", replace(far, epoch=980))
    assert wait_for(store, after, is_in("failed")).began is None


@pytest.mark.parametrize(("side", "slots"), [("C", 1), ("", 1), ("A", 0)])
def test_a_job_needs_a_side_and_a_slot(tmp_path, side, slots):
    with pytest.raises(JobError, match="A job needs side A or B, changes or search, and at least one slot"):
        submit(tmp_path, side, {}, slots=slots)
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported_before_a_job_has_its_turn():
    heavy = ("torch", "pandas", "numpy", "gradio", "pyarrow", "pydantic")
    script = "import sys, frostbench.app.jobs, frostbench.app.worker; "
    script += f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path("/"))
    assert done.stdout.strip() == "[]"
