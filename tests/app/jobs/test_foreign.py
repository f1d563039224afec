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
from frostbench.app.page.listing import list_response
from frostbench.app.page.training import attach
from frostbench.app.workspace import Workspace


@pytest.fixture
def started(monkeypatch):
    """Jobs whose workers were started, in that order; they are this process and do nothing."""
    found = []

    def start(folder, *_):
        found.append(folder.name)
        write_json(folder / "process.json", this_process())

    monkeypatch.setattr(queue, "start", start)
    return found


@pytest.fixture
def plugin(tmp_path):
    """A plugin that leaves a file when it is run."""
    path = tmp_path / "theirs.py"
    path.write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    return path


def foreign(folder):
    """The job as it lies in a store of somebody else, whose secret we do not have."""
    (folder / "mark").write_text("0" * 64)
    return folder


def asks_for(folder, **bench):
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"bench": {"seeds": [0]} | bench}))
    return folder


@pytest.mark.parametrize("forge", ["none", "wrong", "of another job", "changed since"])
def test_a_waiting_job_of_another_store_is_never_started(store, cache, tmp_path, plugin, forge):
    folder = asks_for(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)])
    if forge == "none":
        (folder / "mark").unlink()
    elif forge == "wrong":
        foreign(folder)
    elif forge == "of another job":
        write_mark(folder, "20261128-034512-123456-a1b2")
    here = Workspace(tmp_path, (cache,), store, plugins=(plugin,))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    advance(store, [plugin])
    _, lines, *_ = attach(None, {}, here)
    said = list_response({}, here)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (tmp_path / "ran").exists()
    job = read(store, folder.name)
    assert (job.state, job.message[:46]) == ("foreign", "Asked for on another machine, by somebody else")
    assert 'data-state="foreign"' in lines
    assert "⇄ of another machine" in said["html"]
    assert f'data-cancel="{folder.name}"' in said["html"]
    assert said["unfinished"] == 0
    assert not (store / "jobs" / ".lock").exists()


def test_a_worker_looks_again_before_it_trains(store, cache, tmp_path, plugin, monkeypatch):
    monkeypatch.setattr(worker, "_watch", lambda *_: None)
    folder = foreign(asks_for(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)]))
    assert worker.main(folder, [str(plugin)]) == 1
    assert read(store, folder.name).message.startswith("a job is started for whoever asked for it, however: ")
    own = asks_for(made_by_hand(store), **bench_of(cache), plugins=[str(plugin)])
    write_mark(own, own.name)
    assert worker.main(own) == 1
    told = read(store, own.name)
    assert (told.state, told.message) == (
        "failed",
        f"a job runs plugins that its page was started with, however: it names {plugin}. Start the page with "
        f"--plugin {plugin}.",
    )
    assert not (tmp_path / "ran").exists()
    assert worker.main(_again(own), [str(plugin)]) == 1
    assert (tmp_path / "ran").exists()


def _again(folder):
    for name in ("status.json", "process.json"):
        (folder / name).unlink()
    return folder


def test_a_foreign_job_holds_nobody_up_and_only_a_person_cancels_it(tmp_path, started):
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


def test_the_same_that_somebody_else_asked_for_is_a_job_of_its_own(tmp_path, started):
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
    with pytest.raises(JobError, match=r"a job is marked as yours by a secret in .*it is damaged\. Remove it"):
        submit(tmp_path, "A", {"name": "page"})
    (folder / "mark").write_text(mark._mark(content, folder.name, (folder / "request.json").read_bytes()))
    assert not is_own(folder)
    assert (jobs(tmp_path), started) == ([folder.name], [])


def test_a_secret_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "state").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(JobError, match="or set XDG_STATE_HOME to a folder of yours, and ask for the job again"):
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


def test_a_job_whose_folder_is_gone_says_so(tmp_path, started, monkeypatch):
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
    assert job.message.startswith("a job works in the folder that it was asked for from, however: ")


def test_a_job_waits_for_a_page_with_its_plugins_and_holds_nobody_up(tmp_path, started, plugin, monkeypatch):
    at_work = [made_by_hand(tmp_path, this_process(), state="running") for _ in range(2)]
    needing = submit(tmp_path, "A", {"name": "page", "base": {"train.loss.point.file": str(plugin)}}, plugins=[plugin])
    other = submit(tmp_path, "B", {"name": "page"})
    for folder in at_work:
        write_json(folder / "status.json", Status(state="done"))
    told = f"Waits for a page that was started with --plugin {plugin}."
    assert [read(tmp_path, needing, given).message for given in (None, (), (plugin,))] == ["Starts.", told, "Starts."]
    assert told in list_response({}, Workspace(tmp_path, (), tmp_path))["html"]
    assert started == [other]
    assert queue.jobs_ahead(tmp_path / "jobs" / other, ()) == []
    assert queue.jobs_ahead(tmp_path / "jobs" / other, [plugin]) == [tmp_path / "jobs" / needing]
    # From another folder the file has another name and is the same.
    monkeypatch.chdir(tmp_path)
    advance(tmp_path, [plugin.name])
    assert started == [other, needing]


def test_a_job_cannot_be_asked_for_with_a_plugin_that_was_not_named(tmp_path, started, plugin):
    with pytest.raises(JobError, match="a job runs plugins that its page was started with, however: it names"):
        submit(tmp_path, "A", {"name": "page", "plugins": [str(plugin)]})
    assert (jobs(tmp_path), started) == ([], [])


def test_a_worker_is_given_the_plugins_with_their_whole_paths(tmp_path, monkeypatch, plugin):
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


def test_every_place_of_a_plugin_is_seen(tmp_path):
    bench = {"caches": ["digits.py"], "plugins": ["a.py"], "base": {"head": {"classifier": {"file": "b.py"}}}}
    bench |= {"toggles": {"x": {"train.loss.point": {"kind": "external", "file": "/c.py"}}}, "grid": {"y": ["d.py"]}}
    found = plugins_of(Request("A", "", bench, 1, "cpu", 0.0, str(tmp_path)))
    assert found == [*(str(tmp_path / name) for name in ("a.py", "b.py")), "/c.py", str(tmp_path / "d.py")]


def test_files_that_are_nested_without_end_are_damaged(tmp_path):
    deep = []
    for _ in range(DEEPEST_FILE):
        deep = [deep]
    folder, most = made_by_hand(tmp_path, this_process()), made_by_hand(tmp_path, this_process())
    request = asdict(Request("A", "", {}, 1, "cpu", 0.0))
    (folder / "request.json").write_text(json.dumps(request | {"bench": {"base": deep}}))
    (most / "request.json").write_text(json.dumps(request | {"bench": {"base": deep[0][0]}}))
    with pytest.raises(JobError, match="it is damaged \\(values are nested 200 deep at most\\)"):
        read(tmp_path, folder.name)
    (folder / "request.json").write_text("[" * 100_000)
    (folder / "status.json").write_text("[" * 100_000)
    with pytest.raises(JobError, match=r"request\.json of a job must be as it was written"):
        read(tmp_path, folder.name)
    here = Workspace(tmp_path, (), tmp_path)
    assert list_response({}, here)["html"].count('data-testid="listed"') == 2
    assert attach(None, {}, here)[0] == {"A": most.name}
