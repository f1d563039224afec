"""Reading the files of jobs, also damaged ones, and job IDs."""

import json
import subprocess
import sys
from dataclasses import asdict

import psutil
import pytest
from queued_jobs import another_process, made_by_hand, this_process, wait_until

from frostbench.app.jobs import JobError, cancel, curves, jobs, log_tail, newest, read
from frostbench.app.jobs.files import write_json
from frostbench.app.jobs.ids import is_id, new_id
from frostbench.app.jobs.process import identity
from frostbench.app.jobs.records import Status


def test_incomplete_and_missing_files_are_read_as_far_as_possible(tmp_path):
    folder = made_by_hand(tmp_path, this_process())
    job = read(tmp_path, folder.name)
    assert (job.state, job.ahead, job.message) == ("queued", 0, "Starting.")
    assert (curves(tmp_path, folder.name), log_tail(tmp_path, folder.name)) == ({}, "")
    lines = [{"seed": 3, "epoch": e, "epochs": 9, "loss": 1.5, "macro_f1_fg": None} for e in (1, 2, 3)]
    (folder / "epochs.jsonl").write_text("\n".join(map(json.dumps, lines))[:-4])
    assert curves(tmp_path, folder.name) == {3: {"epoch": [1, 2], "loss": [1.5, 1.5], "macro_f1_fg": [None, None]}}
    (folder / "log.txt").write_bytes(b"one\n\xfftwo\nthr")
    assert log_tail(tmp_path, folder.name, lines=2) == "\N{REPLACEMENT CHARACTER}two\nthr"


def test_a_damaged_status_is_reported_while_the_worker_lives_and_after(tmp_path):
    folder = made_by_hand(tmp_path, this_process())
    (folder / "status.json").write_text('{"state": "done", "mess')
    job = read(tmp_path, folder.name)
    assert (job.state, job.message[:34]) == ("running", "status.json of the job is damaged ")
    write_json(folder / "process.json", another_process())
    job = read(tmp_path, folder.name)
    assert job.state == "lost"
    assert "ended unexpectedly" in job.message
    assert "status.json of the job is damaged" in job.message


@pytest.mark.parametrize("content", ["[]", "{}", '{"state": 1}', json.dumps(asdict(Status()) | {"state": "asleep"})])
def test_a_status_of_another_form_counts_as_damaged(tmp_path, content):
    folder = made_by_hand(tmp_path, this_process())
    (folder / "status.json").write_text(content)
    assert "is damaged" in read(tmp_path, folder.name).message


def test_a_damaged_request_is_reported_and_skipped_by_newest(tmp_path):
    intact, damaged = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    (damaged / "request.json").write_text("{")
    with pytest.raises(JobError, match=r"request\.json of the job is damaged"):
        read(tmp_path, damaged.name)
    assert newest(tmp_path, "A") == intact.name
    assert jobs(tmp_path) == [damaged.name, intact.name]


def test_a_final_status_is_kept_after_the_process_has_ended(tmp_path):
    folder = made_by_hand(tmp_path, another_process(), state="done", keys={4: "abc"}, ended=7.0)
    assert read(tmp_path, folder.name).state == "done"
    assert read(tmp_path, folder.name).keys == {4: "abc"}


def test_the_pid_of_another_process_is_not_the_worker(tmp_path):
    folder = made_by_hand(tmp_path, another_process(), state="running", trained=1, seeds=3)
    assert read(tmp_path, folder.name).state == "lost"
    cancel(tmp_path, folder.name)
    assert read(tmp_path, folder.name).state == "lost"


def test_a_zombie_is_not_the_worker(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        known = psutil.Process(child.pid)
        folder = made_by_hand(tmp_path, identity(child.pid), state="running")
        wait_until(lambda: known.status() == psutil.STATUS_ZOMBIE, "the child has ended")
        assert read(tmp_path, folder.name).state == "lost"


def test_a_job_without_a_process_is_lost_when_its_starter_dies(tmp_path):
    folder = made_by_hand(tmp_path)
    write_json(folder / "starter.json", this_process())
    assert read(tmp_path, folder.name).state == "queued"
    write_json(folder / "starter.json", another_process())
    assert read(tmp_path, folder.name).state == "lost"


def test_only_older_unfinished_jobs_are_ahead(tmp_path):
    made_by_hand(tmp_path, this_process(), state="done")
    made_by_hand(tmp_path, this_process(), state="running")
    made_by_hand(tmp_path, another_process(), state="running")
    own, _ = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    assert read(tmp_path, own.name).ahead == 1


BAD_IDS = ["", ".", "..", "../../etc/passwd", "20261128-034512-123456-a1b2/../x", "20261128-034512-123456-a1b2\n"]


@pytest.mark.parametrize("name", [*BAD_IDS, "20261128-034512-123456-A1B2", "٢٠٢٦١١٢٨-034512-123456-a1b2", "x" * 5000])
@pytest.mark.parametrize("function", [read, curves, log_tail, cancel])
def test_an_invalid_job_id_is_refused(tmp_path, function, name):
    with pytest.raises(JobError, match="A job ID must look like 20261128-034512-123456-a1b2, got ") as error:
        function(tmp_path, name)
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
