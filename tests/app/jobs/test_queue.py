"""Whose turn it is, what waits without a process, and what is refused."""

import errno
import json
import os
import subprocess
import sys

import pytest
from queued_jobs import (
    ENDLESS,
    another_process,
    bench_of,
    epoch_from,
    is_in,
    made_by_hand,
    pid_of,
    this_process,
    wait_for,
    wait_until,
)

from frostbench.app import worker
from frostbench.app.jobs import JobError, advance, cancel, jobs, list_jobs, queue, read, submit, submit_found
from frostbench.app.jobs.ending import write_end
from frostbench.app.jobs.files import is_started, read_request, write_json
from frostbench.app.jobs.ids import new_id
from frostbench.app.jobs.progress import Progress
from frostbench.app.jobs.records import Status
from frostbench.app.jobs.state import current_status


def end(store, job_id, state="done"):
    write_json(store / "jobs" / job_id / "status.json", Status(state=state))


def submitted(store, count, **options):
    return [submit(store, "A", {"name": "page", "seeds": [seed]}, **options) for seed in range(count)]


def test_only_the_current_job_and_the_next_in_line_have_a_worker(tmp_path, started):
    first, second, third, fourth = submitted(tmp_path, 4)
    assert started == [first, second]
    assert [read(tmp_path, each).ahead for each in (third, fourth)] == [2, 3]
    assert [read(tmp_path, each).state for each in (third, fourth)] == ["queued", "queued"]
    end(tmp_path, first)
    advance(tmp_path)
    advance(tmp_path)
    assert started == [first, second, third]


def test_as_many_jobs_run_as_there_are_slots(tmp_path, started):
    all_ids = submitted(tmp_path, 5, slots=3)
    assert started == all_ids[:4]


def test_a_killed_worker_does_not_stop_the_queue(tmp_path, started):
    first, second, third = submitted(tmp_path, 3)
    for each in (first, second):
        write_json(tmp_path / "jobs" / each / "process.json", another_process())
    advance(tmp_path)
    assert started == [first, second, third]
    assert [read(tmp_path, each).state for each in (first, second, third)] == ["lost", "lost", "queued"]


def test_a_waiting_job_is_withdrawn_without_a_worker(tmp_path, started):
    first, second, third, fourth = submitted(tmp_path, 4)
    cancel(tmp_path, third)
    assert (read(tmp_path, third).state, read(tmp_path, third).message) == ("cancelled", "Cancelled before it started.")
    end(tmp_path, first)
    advance(tmp_path)
    assert started == [first, second, fourth]
    cancel(tmp_path, third)
    assert read(tmp_path, third).state == "cancelled"


def test_a_job_with_a_damaged_request_does_not_block_others(tmp_path, started):
    first = submitted(tmp_path, 1)[0]
    damaged = tmp_path / "jobs" / new_id(1e9)
    damaged.mkdir()
    (damaged / "request.json").write_text("{")
    end(tmp_path, first)
    advance(tmp_path)
    assert started == [first]
    assert current_status(damaged).state == "foreign"
    listed, _ = list_jobs(tmp_path)
    assert [(job.id, job.state) for job in listed] == [(first, "done"), (damaged.name, "failed")]
    assert "request.json of the job is damaged" in listed[1].message


def test_an_unfinished_job_with_the_same_runs_is_reused(tmp_path, started):
    first = submit(tmp_path, "A", {"name": "page", "seeds": (0, 1)})
    assert submit(tmp_path, "A", {"name": "page", "seeds": (0, 1)}) == first
    other = submit(tmp_path, "A", {"name": "page", "seeds": (0,)})
    side = submit(tmp_path, "B", {"name": "page", "seeds": (0, 1)})
    assert len({first, other, side}) == len(jobs(tmp_path)) == 3
    cancel(tmp_path, first)
    assert read(tmp_path, first).stopping
    assert submit(tmp_path, "A", {"name": "page", "seeds": (0, 1)}) not in (first, other, side)


def test_known_run_keys_identify_the_same_job(tmp_path, started):
    first = submit(tmp_path, "A", {"name": "page"}, keys={0: "aa"})
    assert submit(tmp_path, "A", {"name": "other words"}, keys={0: "aa"}) == first
    assert submit(tmp_path, "A", {"name": "page"}, keys={0: "bb"}) != first


def test_existing_runs_are_a_job_without_a_worker(tmp_path, started):
    found = submit_found(tmp_path, "B", {"name": "page"}, {3: "aa", 1: "bb"})
    job = read(tmp_path, found)
    assert (job.state, job.message, job.keys, job.found) == ("done", "2 found, 0 trained", {3: "aa", 1: "bb"}, 2)
    assert (started, is_started(tmp_path / "jobs" / found)) == ([], False)
    assert submit_found(tmp_path, "B", {"name": "page"}, {3: "aa", 1: "bb"}) == found
    assert submit_found(tmp_path, "A", {"name": "page"}, {3: "aa", 1: "bb"}) != found
    with pytest.raises(JobError, match="A job needs side A or B"):
        submit_found(tmp_path, "C", {}, {})


def test_the_number_of_unfinished_jobs_is_limited(tmp_path, started, monkeypatch):
    monkeypatch.setattr(queue, "MOST_UNFINISHED", 3)
    first, *_ = submitted(tmp_path, 3)
    message = "A store may hold 3 unfinished jobs, and this one already has 3. Wait until some have ended"
    with pytest.raises(JobError, match=message):
        submit(tmp_path, "B", {"name": "page"})
    assert len(jobs(tmp_path)) == 3
    end(tmp_path, first)
    assert submit(tmp_path, "B", {"name": "page"}) in jobs(tmp_path)


def test_a_job_that_cannot_be_started_is_removed(tmp_path, monkeypatch):
    def refuse(folder, *_):
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(queue, "start", refuse)
    with pytest.raises(OSError, match="no more processes"):
        submit(tmp_path, "A", {})
    assert jobs(tmp_path) == []


def test_all_unfinished_and_the_newest_ended_jobs_are_listed(tmp_path, started):
    all_ids = submitted(tmp_path, 6)
    for each in all_ids[:4]:
        end(tmp_path, each)
    listed, omitted = list_jobs(tmp_path, ended=2)
    assert ([job.id for job in listed], omitted) == ([all_ids[5], all_ids[4], all_ids[3], all_ids[2]], 2)


def test_the_folder_of_a_job_has_default_permissions(tmp_path, started):
    before = os.umask(0o022)
    try:
        folder = tmp_path / "jobs" / submitted(tmp_path, 1)[0]
    finally:
        os.umask(before)
    assert oct(folder.stat().st_mode & 0o777) == "0o755"
    assert oct((folder / "request.json").stat().st_mode & 0o777) == "0o644"


def test_a_job_runs_in_the_folder_it_was_submitted_from(store, cache, tmp_path, monkeypatch):
    at_work = made_by_hand(store, this_process(), state="running")
    made_by_hand(store, this_process())
    monkeypatch.chdir(cache.parent)
    job_id = submit(store.resolve(), "A", bench_of(cache.name))
    assert read_request(store / "jobs" / job_id).folder == str(cache.parent)
    assert not is_started(store / "jobs" / job_id)
    monkeypatch.chdir("/")
    for folder in (store / "jobs").glob("*-*"):
        if folder.name != job_id:
            write_json(folder / "status.json", Status(state="done"))
    advance(store)
    assert current_status(at_work).state == "done"
    assert wait_for(store, job_id, is_in("done")).trained == 1


def test_a_job_reports_a_full_disk(tmp_path, started, monkeypatch):
    folder = tmp_path / "jobs" / submitted(tmp_path, 1)[0]
    write_json(folder / "status.json", Status(state="running", seeds=2, trained=1))
    write_json(folder / "process.json", another_process())

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("frostbench.app.jobs.ending.write_json", full)
    monkeypatch.setattr("frostbench.app.jobs.progress.write_json", full)
    monkeypatch.setattr(worker, "write_process", full)
    monkeypatch.setattr(worker, "_start_next", lambda *_: None)
    assert worker.main(folder) == 1
    job = read(tmp_path, folder.name)
    assert job.state == "failed"
    assert job.message.startswith("The disk is full, so the current run is not kept.")
    assert job.message.endswith("1 of 2 runs was finished and kept.")


def test_the_longest_final_message_fits_into_the_reserved_space(tmp_path, started, monkeypatch):
    folder = tmp_path / "jobs" / submitted(tmp_path, 1)[0]
    size = (folder / "end.json").stat().st_size
    monkeypatch.setattr(
        "frostbench.app.jobs.ending.write_json", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
    )
    write_end(folder, Status(state="failed", message="\N{GRINNING FACE}" * 2000, warnings=("x" * 9000,), ended=1.5))
    assert (folder / "end.json").stat().st_size == size
    write_json(folder / "process.json", another_process())
    assert current_status(folder).message.startswith("\N{GRINNING FACE}" * 300)


def test_a_job_ends_only_once(tmp_path, started):
    folder = tmp_path / "jobs" / submitted(tmp_path, 1)[0]
    progress = Progress(folder)
    progress.end("failed", "first")
    progress.end("done", "second")
    assert read(tmp_path, folder.name).message == "first"


@pytest.mark.slow
def test_many_waiting_jobs_cost_one_process_and_each_gets_its_turn(store, cache):
    """The submitting process is gone, and the first worker is killed."""
    script = (
        "import sys, json; from pathlib import Path; from frostbench.app.jobs import submit\n"
        "for bench in json.loads(sys.argv[2]): print(submit(Path(sys.argv[1]), 'A', bench), flush=True)"
    )
    benches = [bench_of(cache, ENDLESS), *(bench_of(cache, seeds=(seed,)) for seed in range(4))]
    words = [sys.executable, "-c", script, str(store), json.dumps(benches)]
    first, *rest = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    wait_for(store, first, epoch_from(2))
    assert [is_started(store / "jobs" / each) for each in rest] == [True, False, False, False]
    os.kill(pid_of(store, first), 9)
    wait_until(lambda: read(store, first).state == "lost", "the first is lost")
    for each in rest:
        assert wait_for(store, each, is_in("done")).trained == 1
