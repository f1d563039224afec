"""A clock that is set, forward or back, decides nothing about jobs."""

import os
import time
from dataclasses import replace

import psutil
import pytest
from queued_jobs import another_process, bench_of, made_by_hand, this_process

from frostbench.app.jobs import cancel, process, read, submit
from frostbench.app.jobs.files import read_stop_request, write_json
from frostbench.app.jobs.ids import is_id, new_id
from frostbench.app.jobs.process import identity, process_of, request_stop

HOUR = 3600.0


@pytest.fixture(params=[HOUR, -HOUR, 3.0])
def shifted(request, monkeypatch):
    """A function that shifts the wall clock, including psutil's."""
    boot, now = psutil.boot_time(), time.time

    def shift():
        monkeypatch.setattr(time, "time", lambda: now() + request.param)
        monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: boot + request.param)

    return shift


@pytest.mark.skipif(not psutil.LINUX, reason="elsewhere the system tells the creation of a process by the clock alone")
def test_a_living_job_lives_when_the_clock_is_set(tmp_path, shifted):
    folder = made_by_hand(tmp_path, this_process(), state="running")
    later = made_by_hand(tmp_path, this_process())
    shifted()
    assert read(tmp_path, folder.name).state == "running"
    assert read(tmp_path, later.name).ahead == 1
    assert process_of(folder).pid == os.getpid()
    assert identity(os.getpid()) == this_process()


def test_the_time_to_stop_does_not_depend_on_the_clock(tmp_path, shifted, monkeypatch):
    killed = []
    monkeypatch.setattr("frostbench.app.jobs.state.kill", killed.append)
    folder = made_by_hand(tmp_path, this_process(), state="running")
    cancel(tmp_path, folder.name)
    shifted()
    assert read(tmp_path, folder.name).state == "running"
    later = time.monotonic() + 5
    monkeypatch.setattr(process.time, "monotonic", lambda: later)
    assert read(tmp_path, folder.name).state == "cancelled"
    assert len(killed) == 1


def test_a_job_that_is_being_started_is_not_lost_when_the_clock_is_set(tmp_path, shifted):
    folder = made_by_hand(tmp_path)
    write_json(folder / "starter.json", this_process())
    shifted()
    assert read(tmp_path, folder.name).state == "queued"


def test_ids_stay_ordered_when_the_clock_is_set_back(store, cache, monkeypatch):
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda folder, *_: None)
    first = submit(store, "A", bench_of(cache))
    monkeypatch.setattr(time, "time", lambda: 1e9)
    second = submit(store, "B", bench_of(cache))
    assert first < second
    assert is_id(second)


@pytest.mark.parametrize("after", ["99991231-235959-999999-a1b2", "99999999-999999-999999-a1b2"])
def test_an_id_with_an_invalid_time_is_ignored(after):
    assert is_id(new_id(1e9, after))


def test_a_process_of_another_boot_is_not_the_worker(tmp_path):
    folder = made_by_hand(tmp_path, replace(this_process(), boot="another"), state="running")
    job = read(tmp_path, folder.name)
    assert (job.state, job.message.startswith("The machine was restarted")) == ("lost", True)
    folder = made_by_hand(tmp_path, another_process(), state="running")
    assert read(tmp_path, folder.name).message.startswith("The worker ended unexpectedly")


def test_without_a_boot_id_the_creation_time_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "BOOT_ID", tmp_path / "none")
    folder = made_by_hand(tmp_path, this_process(), state="running")
    assert identity(os.getpid()).boot == ""
    assert read(tmp_path, folder.name).state == "running"
    write_json(folder / "process.json", another_process())
    assert read(tmp_path, folder.name).state == "lost"


def test_the_second_request_to_stop_has_its_own_time(tmp_path):
    request_stop(tmp_path)
    first = read_stop_request(tmp_path)
    request_stop(tmp_path)
    again = read_stop_request(tmp_path)
    assert (first.force, again.force) == (False, True)
    assert first.seconds < again.seconds
    request_stop(tmp_path)
    assert read_stop_request(tmp_path) == again
