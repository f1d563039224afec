"""Deleting runs in two steps, which never takes a file that Frostbench did not write, or a run that is in use."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from queued_jobs import made_by_hand, this_process
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app import workspace as places
from frostbench.app.jobs.files import read_request, write_json
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.speed.many_runs import write_many_runs

HEAD = ("card.json", "head.safetensors", "canary.png")


@pytest.fixture
def store(tmp_path):
    """Four runs with the files that a finished run has."""
    store = tmp_path / "results"
    write_many_runs(store, 4)
    for run in (store / "runs").iterdir():
        (run / "head").mkdir()
        for name in ("outcomes.parquet", *(f"head/{file}" for file in HEAD)):
            (run / name).write_text("x")
    return store


@pytest.fixture
def client(store):
    return TestClient(Starlette(routes=routes(Workspace(store.parent, (), store), "token")))


def ask(client, name, **asked):
    return client.post(f"/frostbench/api/{name}", json=asked)


def ids(client):
    return [setting["id"] for setting in client.get("/frostbench/api/runs").json()["settings"]]


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def batches(client):
    stores = client.get("/frostbench/api/runs-trash").json()["stores"]
    return [batch for store in stores for batch in store["batches"]]


def test_deleted_runs_are_put_back_as_they_were(client, store):
    before, all_ids = tree(store / "runs"), ids(client)
    reply = ask(client, "runs-delete", store=str(store), ids=all_ids[:2]).json()
    assert reply["runs"] == 2
    assert ids(client) == all_ids[2:]
    (batch,) = batches(client)
    assert (batch["id"], len(batch["keys"])) == (reply["batch"], 2)
    assert batch["bytes"] == sum(map(len, before.values())) - sum(map(len, tree(store / "runs").values()))
    assert ask(client, "runs-restore", store=str(store), batch=batch["id"]).json() == {"runs": 2, "taken": []}
    assert tree(store / "runs") == before
    assert (ids(client), batches(client)) == (all_ids, [])


def test_emptying_the_trash_deletes_for_good_and_leaves_the_other_runs(client, store):
    ask(client, "runs-delete", store=str(store), ids=ids(client)[:2])
    left = tree(store / "runs")
    (batch,) = batches(client)
    assert ask(client, "runs-empty", store=str(store), batches=[batch["id"]]).json() == {"runs": 2, "left": []}
    assert [path.name for path in (store / "trash").iterdir()] == [".lock"]
    assert tree(store / "runs") == left
    gone = ask(client, "runs-restore", store=str(store), batch=batch["id"])
    assert "has no batch" in gone.json()["error"]


def foreign_file(run):
    (run / "head" / "thesis.txt").write_text("mine")


def foreign_folder(run):
    (run / "plots").mkdir()


def link_to_file(run):
    (run / "head" / "card.json").unlink()
    (run / "head" / "card.json").symlink_to(run.parents[2] / "precious")


def link_to_folder(run):
    shutil.rmtree(run / "head")
    (run / "head").symlink_to(run.parents[2])


@pytest.mark.parametrize("add", [foreign_file, foreign_folder, link_to_file, link_to_folder])
def test_a_folder_with_anything_else_is_left_as_it_is(client, store, add):
    (store.parent / "precious").write_text("x")
    first = client.get("/frostbench/api/runs").json()["settings"][0]
    add(store / "runs" / first["keys"][0])
    reply = ask(client, "runs-delete", store=str(store), ids=ids(client)[:2]).json()
    before = tree(store / "trash" / reply["batch"] / first["keys"][0])
    emptied = ask(client, "runs-empty", store=str(store), batches=[reply["batch"]]).json()
    assert emptied["runs"] == 1
    assert "because Frostbench did not write" in emptied["left"][0]
    assert tree(store / "trash" / reply["batch"] / first["keys"][0]) == before
    assert (store.parent / "precious").read_text() == "x"


def test_a_run_that_was_trained_again_is_not_overwritten(client, store):
    first = client.get("/frostbench/api/runs").json()["settings"][0]
    run = store / "runs" / first["keys"][0]
    reply = ask(client, "runs-delete", store=str(store), ids=[first["id"]]).json()
    shutil.copytree(store / "trash" / reply["batch"] / run.name, run)
    (run / "outcomes.parquet").write_text("new")
    restored = ask(client, "runs-restore", store=str(store), batch=reply["batch"]).json()
    assert restored == {"runs": 0, "taken": [run.name]}
    assert (run / "outcomes.parquet").read_text() == "new"
    assert len(batches(client)) == 1


def job_with(store, **fields):
    folder = made_by_hand(store, process=this_process(), state="running")
    write_json(folder / "request.json", replace(read_request(folder), **fields))
    return folder


def test_runs_of_an_unfinished_job_stay(client, store):
    first, second, *_ = client.get("/frostbench/api/runs").json()["settings"]
    job = job_with(store, keys={0: first["keys"][0]})
    refused = ask(client, "runs-delete", store=str(store), ids=[first["id"]])
    assert refused.status_code == 400
    assert f"job {job.name} (side A, running) needs runs of {first['name']!r}" in refused.json()["error"]
    assert first["id"] in ids(client)
    assert ask(client, "runs-delete", store=str(store), ids=[second["id"]]).status_code == 200


def test_while_a_job_has_not_chosen_its_runs_those_of_its_cache_stay(client, store):
    first = ids(client)[0]
    job_with(store, bench={"caches": ["elsewhere/fake"], "preset": "auto", "seeds": [0]})
    assert "an unfinished job needs" in ask(client, "runs-delete", store=str(store), ids=[first]).json()["error"]
    shutil.rmtree(store / "jobs")
    job_with(store, bench={"caches": ["other"], "preset": "auto", "seeds": [0]})
    assert ask(client, "runs-delete", store=str(store), ids=[first]).status_code == 200


def test_a_run_that_another_process_has_claimed_stays(client, store):
    first = client.get("/frostbench/api/runs").json()["settings"][0]
    (store / "claims").mkdir()
    claim = store / "claims" / f"{first['keys'][0]}.json"
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 7, "started": 1.0}))
    refused = ask(client, "runs-delete", store=str(store), ids=[first["id"]])
    assert "process 7 on elsewhere has claimed" in refused.json()["error"]
    assert claim.exists()
    os.utime(claim, (1, 1))
    assert ask(client, "runs-delete", store=str(store), ids=[first["id"]]).status_code == 200


@pytest.mark.parametrize("batch", ["..", "../runs", "20260101-000000-000000-0000", "", 3])
def test_only_batches_can_be_emptied(client, store, batch):
    before = tree(store)
    assert ask(client, "runs-empty", store=str(store), batches=[batch]).status_code == 400
    assert tree(store / "runs") == {name.removeprefix("runs/"): c for name, c in before.items() if name[:5] == "runs/"}


def test_a_trash_that_is_a_link_is_refused(client, store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (store / "trash").symlink_to(tmp_path / "elsewhere")
    refused = ask(client, "runs-delete", store=str(store), ids=ids(client)[:1])
    assert "must be a folder" in refused.json()["error"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_trash_is_no_store_but_keeps_its_store_on_the_page(client, store):
    other = shutil.copytree(store, store.parent / "more" / "results")
    places._below.cache_clear()
    here = [one for one in client.get("/frostbench/api/runs").json()["settings"] if one["store"] == str(other)]
    assert ask(client, "runs-delete", store=str(other), ids=[one["id"] for one in here]).json()["runs"] == 4
    places._below.cache_clear()
    assert Workspace(store.parent, (), store).other_stores() == [other]
    assert len(batches(client)) == 1
    places._below.cache_clear()


def test_an_ensemble_keeps_its_members(client, store):
    runs = client.get("/frostbench/api/runs").json()["settings"]
    record = store / "runs" / runs[0]["keys"][0] / "record.json"
    written = json.loads(record.read_text()) | {"members": [runs[1]["keys"][0], runs[2]["keys"][0]]}
    record.write_text(json.dumps(written))
    after = client.get("/frostbench/api/runs").json()["settings"]
    (ensemble,) = (one for one in after if one["members"])
    (member,) = (one for one in after if one["keys"] == runs[1]["keys"])
    refused = ask(client, "runs-delete", store=str(store), ids=[member["id"]])
    assert "An ensemble needs its members" in refused.json()["error"]
    assert ask(client, "runs-delete", store=str(store), ids=[member["id"], ensemble["id"]]).status_code == 200
