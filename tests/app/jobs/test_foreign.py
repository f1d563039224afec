"""Jobs of a store that somebody else made are never started, and plugins are run only where they were named."""

import json
import shutil
from dataclasses import asdict

import pytest
from queued_jobs import bench_of, is_in, made_by_hand, records_of, this_process, wait_for

from frostbench.app import worker
from frostbench.app.jobs import JobError, advance, cancel, jobs, list_jobs, mark, queue, read, submit
from frostbench.app.jobs.files import DEEPEST_FILE, is_started, write_json
from frostbench.app.jobs.mark import is_own, write_mark
from frostbench.app.jobs.plugins import plugins_of
from frostbench.app.jobs.process import start
from frostbench.app.jobs.records import Request, Status
from frostbench.app.workbench.train.job_list import job_list
from frostbench.app.workspace import Workspace


@pytest.fixture
def plugin(tmp_path):
    """A plugin that creates a file when it is executed."""
    path = tmp_path / "theirs.py"
    path.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    return path


def foreign(folder):
    """Make a job look like that of another user, whose secret is unknown."""
    (folder / "mark").write_text("0" * 64)
    return folder


def with_bench(folder, **bench):
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"bench": {"seeds": [0]} | bench}))
    return folder


@pytest.mark.parametrize("forge", ["none", "wrong", "of another job", "changed since"])
def test_a_waiting_job_of_another_store_is_never_started(store, cache, tmp_path, plugin, forge):
    folder = with_bench(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)])
    if forge == "none":
        (folder / "mark").unlink()
    elif forge == "wrong":
        foreign(folder)
    elif forge == "of another job":
        write_mark(folder, "20261128-034512-123456-a1b2")
    here = Workspace(tmp_path, (cache,), store, plugins=(plugin,))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    advance(store, [plugin])
    (listed,) = job_list(here)["jobs"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "ran").exists()
    job = read(store, folder.name)
    assert (job.state, job.message[:43]) == ("foreign", "This job was submitted on another machine, ")
    assert (listed["id"], listed["state"], listed["label"]) == (folder.name, "foreign", "not started here")
    assert listed["cancellable"]
    assert not (store / "jobs" / ".lock").exists()


def test_a_worker_checks_the_job_before_training(store, cache, tmp_path, plugin, monkeypatch):
    monkeypatch.setattr(worker, "_watch", lambda *_: None)
    folder = foreign(with_bench(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)]))
    assert worker.main(folder, [str(plugin)]) == 1
    assert read(store, folder.name).message.startswith(
        f"Job {folder.name} cannot be started here. This job was submitted on another machine"
    )
    own = with_bench(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)])
    write_mark(own, own.name)
    assert worker.main(own) == 1
    job = read(store, own.name)
    assert (job.state, job.message) == (
        "failed",
        f"A job may only run plugins that the page was started with, but this one names {plugin}. Start the page with "
        f"--plugin {plugin}.",
    )
    assert not (tmp_path / "ran").exists()
    assert worker.main(_again(own), [str(plugin)]) == 1
    assert (tmp_path / "ran").exists()


def _again(folder):
    for name in ("status.json", "process.json"):
        (folder / name).unlink()
    return folder


def test_a_foreign_job_does_not_block_others_and_can_be_cancelled(tmp_path, started):
    first = foreign(made_by_hand(tmp_path))
    second = foreign(made_by_hand(tmp_path))
    write_json(second / "status.json", Status(state="running", seeds=1))
    own = submit(tmp_path, "A", {"name": "page"})
    assert started == [own]
    assert (read(tmp_path, own).ahead, worker.queue.jobs_ahead(tmp_path / "jobs" / own, ())) == (0, [])
    assert {job.id: job.state for job in list_jobs(tmp_path)[0]} == {
        own: "queued",
        second.name: "foreign",
        first.name: "foreign",
    }
    cancel(tmp_path, first.name)
    assert read(tmp_path, first.name).state == "cancelled"
    assert started == [own]


def test_a_foreign_job_with_the_same_runs_is_not_reused(tmp_path, started):
    first = submit(tmp_path, "A", {"name": "page"})
    (tmp_path / "jobs" / first / "process.json").unlink()
    foreign(tmp_path / "jobs" / first)
    second = submit(tmp_path, "A", {"name": "page"})
    assert second != first
    assert started == [first, second]


def test_a_job_of_another_machine_of_this_user_is_foreign(tmp_path, monkeypatch):
    folder = made_by_hand(tmp_path)
    assert is_own(folder)
    (tmp_path / "machine-id").write_text("another\n")
    monkeypatch.setattr(mark, "MACHINE_ID", tmp_path / "machine-id")
    assert not is_own(folder)


def test_another_user_has_another_secret(tmp_path, monkeypatch):
    folder = made_by_hand(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert not is_own(folder)
    assert not (tmp_path / "state").exists()
    made_by_hand(tmp_path)
    secret = tmp_path / "state" / "frostbench" / "jobs.secret"
    assert (oct(secret.stat().st_mode & 0o777), len(secret.read_bytes())) == ("0o600", 32)
    assert not is_own(folder)
    kept = secret.read_bytes()
    assert is_own(made_by_hand(tmp_path))
    assert secret.read_bytes() == kept


@pytest.mark.parametrize("content", [b"", b"short"])
def test_a_damaged_secret_marks_nothing(tmp_path, started, monkeypatch, content):
    folder = made_by_hand(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    secret = tmp_path / "state" / "frostbench" / "jobs.secret"
    secret.parent.mkdir(parents=True)
    secret.write_bytes(content)
    with pytest.raises(JobError, match=r"The secret that marks jobs as yours, .* is damaged\. Remove it"):
        submit(tmp_path, "A", {"name": "page"})
    (folder / "mark").write_text(mark._mark(content, folder.name, (folder / "request.json").read_bytes()))
    assert not is_own(folder)
    assert (jobs(tmp_path), started) == ([folder.name], [])


def test_a_secret_that_cannot_be_created_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(JobError, match="or set XDG_STATE_HOME to a folder of yours, and submit the job again"):
        submit(tmp_path, "A", {"name": "page"})
    assert jobs(tmp_path) == []


def test_a_store_that_was_moved_keeps_its_jobs_and_trains_into_itself(store, cache, tmp_path):
    at_work = [made_by_hand(store, this_process(), state="running") for _ in range(2)]
    job_id = submit(store, "A", bench_of(cache))
    moved = shutil.move(store, tmp_path / "moved")
    for folder in at_work:
        write_json(moved / "jobs" / folder.name / "status.json", Status(state="done"))
    advance(moved)
    done = wait_for(moved, job_id, is_in("done"))
    assert list(records_of(moved, done)) == [0]
    assert not store.exists()


def test_a_job_whose_folder_is_gone_fails(tmp_path, started, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    own = made_by_hand(tmp_path)
    write_json(own / "request.json", Request("A", "", {}, 1, "cpu", 0.0, str(tmp_path / "here")))
    write_mark(own, own.name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").rmdir()
    advance(tmp_path)
    job = read(tmp_path, own.name)
    assert (job.state, started) == ("failed", [])
    assert job.message.startswith(f"The folder {tmp_path / 'here'}, from which the job was submitted, no longer exists")


def test_a_job_waits_for_a_page_with_its_plugins_without_blocking_others(tmp_path, started, plugin, monkeypatch):
    at_work = [made_by_hand(tmp_path, this_process(), state="running") for _ in range(2)]
    needing = submit(tmp_path, "A", {"name": "page", "base": {"train.loss.point.file": str(plugin)}}, plugins=[plugin])
    other = submit(tmp_path, "B", {"name": "page"})
    for folder in at_work:
        write_json(folder / "status.json", Status(state="done"))
    message = f"Waiting for a page that was started with --plugin {plugin}."
    assert [read(tmp_path, needing, given).message for given in (None, (), (plugin,))] == [
        "Starting.",
        message,
        "Starting.",
    ]
    listed = job_list(Workspace(tmp_path, (), tmp_path))["jobs"]
    assert message in [job["text"] for job in listed]
    assert started == [other]
    assert queue.jobs_ahead(tmp_path / "jobs" / other, ()) == []
    assert queue.jobs_ahead(tmp_path / "jobs" / other, [plugin]) == [tmp_path / "jobs" / needing]
    # The same file may be named relative to another folder.
    monkeypatch.chdir(tmp_path)
    advance(tmp_path, [plugin.name])
    assert started == [other, needing]


def test_a_job_with_a_plugin_that_is_not_allowed_is_refused(tmp_path, started, plugin):
    with pytest.raises(JobError, match="A job may only run plugins that the page was started with, but this one names"):
        submit(tmp_path, "A", {"name": "page", "plugins": [str(plugin)]})
    assert (jobs(tmp_path), started) == ([], [])


def test_a_worker_gets_absolute_paths_of_plugins(tmp_path, monkeypatch, plugin):
    calls = []

    class Started:
        pid = this_process().pid

        def __init__(self, command, **_):
            calls.append(command)

        def wait(self):
            return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("frostbench.app.jobs.process.subprocess.Popen", Started)
    folder = made_by_hand(tmp_path)
    start(folder, Request("A", "", {}, 1, "cpu", 0.0), ["theirs.py"])
    assert calls[0][-2:] == [str(folder), str(plugin)]
    assert is_started(folder)


def test_plugins_are_found_anywhere_in_the_bench(tmp_path):
    bench = {"caches": ["digits.py"], "plugins": ["a.py"], "base": {"head": {"classifier": {"file": "b.py"}}}}
    bench |= {"toggles": {"x": {"train.loss.point": {"kind": "external", "file": "/c.py"}}}, "grid": {"y": ["d.py"]}}
    found = plugins_of(bench, tmp_path)
    assert found == [*(str(tmp_path / name) for name in ("a.py", "b.py")), "/c.py", str(tmp_path / "d.py")]


def test_deeply_nested_files_count_as_damaged(tmp_path):
    deep = []
    for _ in range(DEEPEST_FILE):
        deep = [deep]
    folder, most = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    request = asdict(Request("A", "", {}, 1, "cpu", 0.0))
    (folder / "request.json").write_text(json.dumps(request | {"bench": {"base": deep}}))
    (most / "request.json").write_text(json.dumps(request | {"bench": {"base": deep[0][0]}}))
    with pytest.raises(JobError, match="is damaged \\(values are nested more than 200 levels deep\\)"):
        read(tmp_path, folder.name)
    (folder / "request.json").write_text("[" * 100_000)
    (folder / "status.json").write_text("[" * 100_000)
    with pytest.raises(JobError, match=r"request\.json of the job is damaged"):
        read(tmp_path, folder.name)
    here = Workspace(tmp_path, (), tmp_path)
    assert len(job_list(here)["jobs"]) == 2
