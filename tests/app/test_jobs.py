import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.jobs import JobError, cancel, curves, eta_seconds, jobs, log_tail, newest, read, submit
from app.jobs.files import Process, Request, Status, is_id, new_id, read_process, write_json
from app.jobs.process import process_of
from app.jobs.progress import Progress

ENDLESS = {
    "train.schedule.epochs": 100_000,
    "train.schedule.batch_size": 1000,
    "train.early_stop.patience": 100_000,
}
SHORT = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0}
# With many vectors of very unequal scale, an almost absent penalty and this tolerance the search takes a while.
SLOW_SOLVER = {
    "head.classifier.kind": "logreg",
    "head.classifier.tolerance": 1e-10,
    "head.classifier.c": 1e6,
    "head.classifier.max_iterations": 1_000_000,
}
DEADLINE = 60


def write_cache(folder, rows, dim, classes, scales=(1.0,)):
    from embedcache.exchange.external import import_vectors

    vectors = np.random.default_rng(0).normal(0, 1, (rows, dim)) * np.resize(scales, dim)
    folder.mkdir()
    np.save(folder / "x.npy", vectors.astype(np.float32))
    names = "\n".join(f"class {i % classes}" for i in range(rows))
    (folder / "rows.csv").write_text(f"label\n{names}\n")
    import_vectors(folder / "x.npy", folder / "rows.csv", folder / "cache", "random")
    return folder / "cache"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("small") / "in", 120, 8, 3)


@pytest.fixture
def store(tmp_path):
    """A store in which no worker is left behind, whatever the test did."""
    folder = tmp_path / "results"
    yield folder
    for path in folder.glob("jobs/*"):
        process = process_of(path)
        if process is not None and process.pid != os.getpid():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def bench_of(cache, base=SHORT, seeds=(0,)):
    return {"name": "page", "caches": [str(cache)], "preset": "plain", "base": base, "seeds": list(seeds)}


def wait_for(store, job_id, reached):
    """The job as soon as it is as it should be; it must not end otherwise before."""
    deadline = time.monotonic() + DEADLINE
    while not reached(job := read(store, job_id)):
        ended = job.state not in ("queued", "running")
        if ended or time.monotonic() > deadline:
            pytest.fail(f"{job}\n{log_tail(store, job_id)}")
        time.sleep(0.02)
    return job


def wait_until(reached, what):
    deadline = time.monotonic() + DEADLINE
    while not reached():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def is_in(state):
    return lambda job: job.state == state


def epoch_from(epoch):
    return lambda job: job.epoch >= epoch


def pid_of(store, job_id):
    return read_process(store / "jobs" / job_id).pid


def seconds_to(store, job_id, state, act):
    """How long a job takes to a state after something was done."""
    began = time.monotonic()
    act()
    return wait_for(store, job_id, is_in(state)), time.monotonic() - began


def records_of(store, job):
    from benchmarks.store import read_record

    return {seed: read_record(store, key) for seed, key in job.keys.items()}


@pytest.mark.slow
def test_a_job_trains_its_seeds_and_the_next_one_waits_and_finds_them(store, cache):
    first = submit(store, "A", bench_of(cache, seeds=(1, 0)), title="plain <b>")
    second = submit(store, "B", bench_of(cache, seeds=(1, 0)))
    waiting = read(store, second)
    assert (waiting.state, waiting.ahead, waiting.message) == ("queued", 1, "Waits for 1 other job.")
    assert (jobs(store), newest(store, "A"), newest(store, "B")) == ([second, first], first, second)

    done = wait_for(store, first, is_in("done"))
    assert (done.side, done.title, done.message) == ("A", "plain <b>", "0 found, 2 trained")
    assert (done.seed_number, done.seeds, done.epoch, done.epochs, done.trained, done.found) == (2, 2, 4, 4, 2, 0)
    assert done.created <= done.began <= done.ended
    assert done.bench["store"] == str(store)
    assert [warning[:21] for warning in done.warnings] == ["No groups are stated:"]
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


@pytest.mark.slow
def test_a_job_outlives_the_killed_process_that_asked_for_it_and_cancelling_keeps_its_best(store, cache):
    from benchmarks.store import count_runs, is_finished, write_records
    from heads.export import load

    script = (
        "import sys, json; from pathlib import Path; from app.jobs import submit\n"
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
    assert job.message == f"Stopped at epoch {job.epoch}. Best so far (epoch {job.best_epoch}) is kept."
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
    # Before its first word a worker takes SIGTERM like any process: it just ends.
    wait_for(store, fourth, lambda job: (store / "jobs" / fourth / "status.json").exists())
    for job_id, act in (
        (third, lambda: cancel(store, third)),
        (fourth, lambda: os.kill(pid_of(store, fourth), signal.SIGTERM)),
    ):
        job, seconds = seconds_to(store, job_id, "cancelled", act)
        assert seconds < 2
        assert (job.message, job.began, job.keys) == ("Cancelled before it began.", None, {})

    wait_for(store, killed, epoch_from(2))
    assert read(store, solver).state == "queued"
    lost, seconds = seconds_to(store, killed, "lost", lambda: os.kill(pid_of(store, killed), signal.SIGKILL))
    assert seconds < 2
    assert lost.message.startswith("The worker ended without a word")
    assert (lost.ended, eta_seconds(lost)) == (None, None)

    wait_for(store, solver, lambda job: job.seed_number == 1)
    # A solver asks nobody whether it should stop: the worker ends it after its 3 s of grace.
    job, seconds = seconds_to(store, solver, "cancelled", lambda: cancel(store, solver))
    assert 2.9 < seconds < 5
    assert (job.message, job.keys, job.epoch) == ("Stopped in the middle of a run, which is not kept.", {}, 0)


def instead_of_pydantic(monkeypatch, folder, source):
    """What the worker imports first where it begins to train is replaced."""
    folder.mkdir()
    (folder / "pydantic.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        ("ValueError", "rule, however: this came."),
        ("OSError", "rule, however: this came."),
        ("TypeError", "something went wrong: TypeError: rule, however: this came."),
    ],
)
def test_an_exception_is_told_in_one_line_and_logged(store, cache, tmp_path, monkeypatch, raised, told):
    instead_of_pydantic(monkeypatch, tmp_path / "odd", f"raise {raised}('rule, however: this came.\\nSee the docs.')")
    job_id = submit(store, "A", bench_of(cache))
    pid = pid_of(store, job_id)
    job = wait_for(store, job_id, is_in("failed"))
    assert job.message == told
    assert "Traceback (most recent call last)" in log_tail(store, job_id)
    assert log_tail(store, job_id, lines=2) == f"{raised}: rule, however: this came.\nSee the docs."
    wait_until(lambda: not psutil.pid_exists(pid), "no zombie is left")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"base": {"train.optim.rate": 1}}, "row 'plain': train.optim.rate: Extra inputs are not permitted"),
        ({"caches": []}, "a job is one row on one cache, however: 1 rows on 0 caches came"),
        ({"grid": {"train.optim.lr": [0.1, 0.2]}}, "a job is one row on one cache, however: 3 rows on 1 caches came"),
        ({"caches": ["/nowhere"]}, "/nowhere"),
    ],
)
def test_a_bench_that_cannot_be_trained_is_refused(tmp_path, cache, fields, told):
    from app.jobs.training import train

    bench = bench_of(cache) | {"store": str(tmp_path)} | fields
    with pytest.raises((ValueError, OSError), match=told):
        train(Request("A", "", bench, 1, "cpu", 0.0), Progress(tmp_path))


def test_a_job_begins_while_fewer_older_ones_work_than_it_has_slots(store, cache, tmp_path, monkeypatch):
    made_by_hand(store, this_process(), state="running")
    instead_of_pydantic(monkeypatch, tmp_path / "odd", "raise ValueError('came to train')")
    # Whoever keeps a package of the same name in the current directory gets our worker all the same.
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    monkeypatch.chdir(tmp_path)
    beside = submit(store, "A", bench_of(cache), slots=2)
    begun = wait_for(store, beside, is_in("failed"))
    assert (begun.message, begun.began is None) == ("came to train", False)
    # The next in line makes itself ready, but does not begin.
    after = submit(store, "A", bench_of(cache))
    assert wait_for(store, after, is_in("failed")).began is None


@pytest.mark.slow
def test_a_worker_that_cannot_stop_is_killed(store, cache, tmp_path, monkeypatch):
    # PyDLL keeps the interpreter's lock: no other thread of the worker can run.
    source = "import ctypes, pathlib\npathlib.Path({!r}).touch()\nctypes.PyDLL(None).sleep(600)"
    instead_of_pydantic(monkeypatch, tmp_path / "odd", source.format(str(tmp_path / "asleep")))
    job_id = submit(store, "A", bench_of(cache))
    wait_for(store, job_id, lambda job: (tmp_path / "asleep").exists())
    job, seconds = seconds_to(store, job_id, "cancelled", lambda: cancel(store, job_id))
    assert 3.5 < seconds < 5
    assert job.message == "Stopped by force, for the worker did not answer; the run at work is not kept."
    assert job.ended == pytest.approx(time.time(), abs=10)
    assert process_of(store / "jobs" / job_id) is None


def made_by_hand(store, process=None, **fields):
    """A job without a worker; its process is that of somebody else."""
    created = time.time()
    folder = store / "jobs" / new_id(created)
    folder.mkdir(parents=True)
    write_json(folder / "request.json", Request("A", "", {"seeds": [0]}, 1, "cpu", created))
    if process is not None:
        write_json(folder / "process.json", process)
    if fields:
        write_json(folder / "status.json", Status(**fields))
    return folder


def this_process():
    return Process(os.getpid(), psutil.Process().create_time())


def test_half_written_and_missing_files_are_read_as_far_as_they_go(tmp_path):
    folder = made_by_hand(tmp_path, this_process())
    job = read(tmp_path, folder.name)
    assert (job.state, job.ahead, job.message) == ("queued", 0, "Starts.")
    assert (curves(tmp_path, folder.name), log_tail(tmp_path, folder.name)) == ({}, "")
    lines = [{"seed": 3, "epoch": e, "epochs": 9, "loss": 1.5, "macro_f1_fg": None} for e in (1, 2, 3)]
    (folder / "epochs.jsonl").write_text("\n".join(map(json.dumps, lines))[:-4])
    assert curves(tmp_path, folder.name) == {3: {"epoch": [1, 2], "loss": [1.5, 1.5], "macro_f1_fg": [None, None]}}
    (folder / "log.txt").write_bytes(b"one\n\xfftwo\nthr")
    assert log_tail(tmp_path, folder.name, lines=2) == "\N{REPLACEMENT CHARACTER}two\nthr"


def test_a_damaged_status_is_told_while_the_worker_lives_and_after(tmp_path):
    folder = made_by_hand(tmp_path, this_process())
    (folder / "status.json").write_text('{"state": "done", "mess')
    job = read(tmp_path, folder.name)
    assert (job.state, job.message[:60]) == ("running", "status.json of a job must be as it was written, however: it ")
    write_json(folder / "process.json", replace(this_process(), create_time=1.0))
    job = read(tmp_path, folder.name)
    assert job.state == "lost"
    assert "without a word" in job.message
    assert "status.json of a job must be as it was written" in job.message


@pytest.mark.parametrize("content", ["[]", "{}", '{"state": 1}', json.dumps(asdict(Status()) | {"state": "asleep"})])
def test_a_status_of_another_form_counts_as_damaged(tmp_path, content):
    folder = made_by_hand(tmp_path, this_process())
    (folder / "status.json").write_text(content)
    assert "it is damaged" in read(tmp_path, folder.name).message


def test_a_damaged_request_is_told_and_passed_over_by_newest(tmp_path):
    whole, damaged = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    (damaged / "request.json").write_text("{")
    with pytest.raises(JobError, match=r"request\.json of a job must be as it was written"):
        read(tmp_path, damaged.name)
    assert newest(tmp_path, "A") == whole.name
    assert jobs(tmp_path) == [damaged.name, whole.name]


def test_an_end_that_was_written_is_kept_when_the_process_is_gone(tmp_path):
    folder = made_by_hand(tmp_path, Process(os.getpid(), 1.0), state="done", keys={4: "abc"}, ended=7.0)
    assert read(tmp_path, folder.name).state == "done"
    assert read(tmp_path, folder.name).keys == {4: "abc"}


def test_the_pid_of_another_process_is_not_the_worker(tmp_path):
    folder = made_by_hand(tmp_path, replace(this_process(), create_time=1.0), state="running", trained=1, seeds=3)
    assert read(tmp_path, folder.name).state == "lost"
    cancel(tmp_path, folder.name)
    assert read(tmp_path, folder.name).state == "lost"


def test_a_zombie_is_not_the_worker(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        known = psutil.Process(child.pid)
        folder = made_by_hand(tmp_path, Process(child.pid, known.create_time()), state="running")
        wait_until(lambda: known.status() == psutil.STATUS_ZOMBIE, "the child has ended")
        assert read(tmp_path, folder.name).state == "lost"


def test_a_job_whose_process_never_came_is_lost_after_a_while(tmp_path):
    folder = made_by_hand(tmp_path)
    assert read(tmp_path, folder.name).state == "queued"
    os.utime(folder, (1.0, 1.0))
    assert read(tmp_path, folder.name).state == "lost"


def test_only_older_jobs_that_live_stand_before_a_job(tmp_path):
    made_by_hand(tmp_path, this_process(), state="done")
    made_by_hand(tmp_path, this_process(), state="running")
    made_by_hand(tmp_path, Process(os.getpid(), 1.0), state="running")
    own, _ = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    assert read(tmp_path, own.name).ahead == 1


BAD_IDS = ["", ".", "..", "../../etc/passwd", "20261128-034512-123456-a1b2/../x", "20261128-034512-123456-a1b2\n"]


@pytest.mark.parametrize("name", [*BAD_IDS, "20261128-034512-123456-A1B2", "٢٠٢٦١١٢٨-034512-123456-a1b2", "x" * 5000])
@pytest.mark.parametrize("ask", [read, curves, log_tail, cancel])
def test_a_name_that_is_no_job_id_is_refused(tmp_path, ask, name):
    with pytest.raises(JobError, match="a job is called like 20261128-034512-123456-a1b2, however: ") as error:
        ask(tmp_path, name)
    assert len(str(error.value)) < 300


def test_an_id_that_is_not_in_the_store_is_refused(tmp_path):
    with pytest.raises(JobError, match="has no job 20261128-034512-123456-a1b2"):
        read(tmp_path, "20261128-034512-123456-a1b2")
    assert (jobs(tmp_path), newest(tmp_path, "A")) == ([], None)


def test_ids_sort_by_time_and_differ():
    ids = [new_id(second) for second in (1.0, 1.000001, 1e9, 1e9 + 1)]
    assert ids == sorted(ids)
    assert all(map(is_id, ids))
    assert new_id(1e9)[:-4] == "20010909-014640-000000-"
    assert len({new_id(1.0) for _ in range(20)}) > 15


@pytest.mark.parametrize(("side", "slots"), [("C", 1), ("", 1), ("A", 0)])
def test_a_job_needs_a_side_and_a_slot(tmp_path, side, slots):
    with pytest.raises(JobError, match="a job is for side A or B and needs a slot"):
        submit(tmp_path, side, {}, slots=slots)
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_imported_before_a_job_has_its_turn():
    heavy = ("torch", "pandas", "numpy", "gradio", "pyarrow", "pydantic")
    script = f"import sys, app.jobs, app.worker; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path("/"))
    assert done.stdout.strip() == "[]"
