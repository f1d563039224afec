"""Jobs that are cancelled, killed or asleep."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from queued_jobs import (
    ENDLESS,
    SLOW_SOLVER,
    bench_of,
    epoch_from,
    instead_of_pydantic,
    is_in,
    pid_of,
    records_of,
    seconds_to,
    wait_for,
    write_cache,
)
from slow_steps import slow_bench

from frostbench.app.jobs import cancel, curves, eta_seconds, read, submit
from frostbench.app.jobs.process import process_of


@pytest.mark.slow
def test_a_job_outlives_its_submitting_process_and_cancelling_keeps_the_best_epoch(store, cache):
    from frostbench.benchmarks.runs.all_runs import count_runs, write_records
    from frostbench.benchmarks.runs.store import is_finished
    from frostbench.heads.bundle.export import load

    script = (
        "import sys, json; from pathlib import Path; from frostbench.app.jobs import submit\n"
        "print(submit(Path(sys.argv[1]), 'A', json.loads(sys.argv[2])), flush=True)\n"
        "sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, str(store), json.dumps(bench_of(cache, ENDLESS, seeds=(0, 1)))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        job_id = server.stdout.readline().strip()
        server.kill()
        server.wait(10)
    at = wait_for(store, job_id, epoch_from(2))
    assert (at.state, at.seed_number, at.seeds, at.epochs, at.message) == ("running", 1, 2, 100_000, "")
    assert 0 < eta_seconds(at) == pytest.approx(at.pace * (200_000 - at.epoch))
    wait_for(store, job_id, epoch_from(at.epoch + 600))

    job, seconds = seconds_to(store, job_id, "cancelled", lambda: cancel(store, job_id))
    assert seconds < 5
    key, stopped = job.keys[0].split("-stopped-")
    assert (list(job.keys), int(stopped)) == ([0], job.epoch)
    assert job.message == f"Stopped at epoch {job.epoch}. The best epoch so far ({job.best_epoch}) is kept."
    record = records_of(store, job)[0]
    assert (record.key, record.reason, record.epoch) == (job.keys[0], "stopped", job.best_epoch)
    assert record.evaluations["select"].metrics["macro_f1_fg"] == pytest.approx(job.best)
    head = load(store / "runs" / job.keys[0] / "head").head
    assert head.class_names == ("class 0", "class 1", "class 2")
    assert not is_finished(store, key)
    assert count_runs(store, record.data.split) == (1, ())
    assert write_records(store)[1] == ()
    (curve,) = curves(store, job_id).values()
    assert (len(curve["epoch"]), curve["epoch"][0], curve["epoch"][-1]) == (500, 1, job.epoch)


@pytest.mark.slow
def test_waiting_jobs_can_be_stopped_and_take_over_when_a_worker_is_killed(store, cache, tmp_path):
    unequal = write_cache(tmp_path / "in", 6000, 400, 60, (1.0, 0.1, 0.01, 0.001))
    killed = submit(store, "A", bench_of(cache, ENDLESS))
    solver = submit(store, "B", bench_of(unequal, SLOW_SOLVER))
    third, fourth = submit(store, "A", bench_of(cache)), submit(store, "B", bench_of(cache))
    assert (read(store, third).ahead, read(store, fourth).ahead) == (2, 3)
    # Only the next in line has a process that waits.
    assert [(store / "jobs" / each / "process.json").exists() for each in (killed, solver, third)] == [
        True,
        True,
        False,
    ]
    job, seconds = seconds_to(store, third, "cancelled", lambda: cancel(store, third))
    assert seconds < 2
    assert (job.message, job.began, job.keys) == ("Cancelled before it started.", None, {})
    assert not (store / "jobs" / third / "process.json").exists()

    wait_for(store, killed, epoch_from(2))
    assert read(store, solver).state == "queued"
    lost, seconds = seconds_to(store, killed, "lost", lambda: os.kill(pid_of(store, killed), signal.SIGKILL))
    assert seconds < 2
    assert lost.message.startswith("The worker ended unexpectedly")
    assert (lost.ended, eta_seconds(lost)) == (None, None)

    wait_for(store, solver, lambda job: job.seed_number == 1)
    # The fourth worker was started when the solver began. Before it has written a status, SIGTERM just ends it.
    wait_for(store, fourth, lambda job: (store / "jobs" / fourth / "status.json").exists())
    job, seconds = seconds_to(store, fourth, "cancelled", lambda: os.kill(pid_of(store, fourth), signal.SIGTERM))
    assert seconds < 2
    assert (job.message, job.began, job.keys) == ("Cancelled before it started.", None, {})
    # A solver does not check for requests to stop: the worker ends it after 3 s.
    job, seconds = seconds_to(store, solver, "cancelled", lambda: cancel(store, solver))
    assert 2.9 < seconds < 5
    assert (job.message, job.keys, job.epoch) == (
        "Stopped before the current run had finished an epoch, so nothing of it is kept.",
        {},
        0,
    )


@pytest.mark.slow
def test_a_worker_that_cannot_stop_is_killed(store, cache, tmp_path, monkeypatch):
    # PyDLL holds the GIL, so no other thread of the worker can run.
    source = "import ctypes, pathlib\npathlib.Path({!r}).touch()\nctypes.PyDLL(None).sleep(600)"
    instead_of_pydantic(monkeypatch, tmp_path / "odd", source.format(str(tmp_path / "asleep")))
    job_id = submit(store, "A", bench_of(cache))
    wait_for(store, job_id, lambda job: (tmp_path / "asleep").exists())
    job, seconds = seconds_to(store, job_id, "cancelled", lambda: cancel(store, job_id))
    assert 3.5 < seconds < 5
    assert job.message == "Killed, because the worker did not respond; the current run is not kept."
    assert job.ended == pytest.approx(time.time(), abs=10)
    assert process_of(store / "jobs" / job_id) is None


@pytest.mark.slow
def test_the_best_epoch_is_kept_even_if_the_next_step_is_slow(store, cache, tmp_path):
    bench = slow_bench(bench_of(cache, ENDLESS, seeds=(0, 1)), tmp_path, after=8, seconds=9.0)
    job_id = submit(store, "A", bench, plugins=bench["plugins"])
    wait_for(store, job_id, lambda job: (tmp_path / "slow").exists())
    cancel(store, job_id)
    at = read(store, job_id)
    assert (at.state, at.stopping, at.holds, at.message[:42]) == (
        *("running", True, 1),
        "Stopping: the best epoch so far is being s",
    )
    job = wait_for(store, job_id, is_in("cancelled"))
    assert list(job.keys) == [0]
    assert job.epoch >= 2
    assert job.message == f"Stopped at epoch {job.epoch}. The best epoch so far ({job.best_epoch}) is kept."
    record = records_of(store, job)[0]
    assert (record.reason, record.epoch) == ("stopped", job.best_epoch)
    assert (store / "runs" / job.keys[0] / "head").is_dir()
    assert job.stopping is False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "cancels", "message"),
    [
        (0, 1, "Stopped before the current run had finished an epoch, so nothing of it is kept."),
        (8, 2, "Stopped immediately after the second request to cancel; the current run is not kept."),
    ],
)
def test_a_job_without_a_finished_epoch_or_cancelled_twice_ends_quickly(
    store, cache, tmp_path, after, cancels, message
):
    bench = slow_bench(bench_of(cache, ENDLESS), tmp_path, after=after, seconds=60.0)
    job_id = submit(store, "A", bench, plugins=bench["plugins"])
    wait_for(store, job_id, lambda job: (tmp_path / "slow").exists())
    for _ in range(cancels):
        cancel(store, job_id)
    job, seconds = seconds_to(store, job_id, "cancelled", lambda: None)
    assert seconds < 5
    assert (job.message, job.keys) == (message, {})
