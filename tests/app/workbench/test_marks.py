"""Names, tags, stars, notes and pins of settings, which several people may change in one store."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.routes import routes
from frostbench.app.workbench.runs import marks as kept
from frostbench.app.workbench.runs.marks import Mark, MarkError, Marks, change_marks, read_marks
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.speed.many_runs import write_many_runs


@pytest.fixture
def store(tmp_path):
    write_many_runs(tmp_path / "results", 4)
    return tmp_path / "results"


@pytest.fixture
def client(store):
    return TestClient(Starlette(routes=routes(Workspace(store.parent, (), store), "token")))


def ask(client, name, **asked):
    return client.post(f"/frostbench/api/{name}", json=asked)


def listed(client):
    return client.get("/frostbench/api/runs").json()


def test_marks_are_in_the_list_and_in_the_store(client, store):
    first, second, *_ = listed(client)["settings"]
    change = {"name": "  best so far ", "star": True, "note": "two\nlines"}
    given = {"given": "best so far", "star": True, "note": "two\nlines", "tags": []}
    reply = ask(client, "runs-mark", store=str(store), ids=[first["id"]], change=change).json()
    assert reply == {"marks": {first["id"]: given}, "problem": ""}
    ask(client, "runs-mark", store=str(store), ids=[first["id"], second["id"]], change={"add_tags": ["Draft", "paper"]})
    ask(client, "runs-mark", store=str(store), ids=[second["id"]], change={"remove_tags": ["DRAFT"]})
    after = {setting["id"]: setting for setting in listed(client)["settings"]}
    assert (after[first["id"]]["name"], after[first["id"]]["described"]) == ("best so far", first["name"])
    assert (after[first["id"]]["tags"], after[second["id"]]["tags"]) == (["Draft", "paper"], ["paper"])
    assert (after[second["id"]]["name"], after[second["id"]]["given"]) == (second["name"], "")
    assert read_marks(store).marks.of(first["entry"]) == Mark("best so far", ("Draft", "paper"), True, "two\nlines")


def test_marks_stay_when_the_store_is_moved(client, store):
    first = listed(client)["settings"][0]
    ask(client, "runs-mark", store=str(store), ids=[first["id"]], change={"name": "kept"})
    moved = store.rename(store.parent / "elsewhere")
    other = TestClient(Starlette(routes=routes(Workspace(moved.parent, (), moved), "token")))
    assert [setting["entry"] for setting in listed(other)["settings"] if setting["name"] == "kept"] == [first["entry"]]


def test_a_mark_that_is_empty_again_leaves_the_file(client, store):
    first = listed(client)["settings"][0]
    for change in ({"name": "x", "star": True}, {"name": "", "star": False}):
        ask(client, "runs-mark", store=str(store), ids=[first["id"]], change=change)
    assert json.loads((store / "names.json").read_text()) == {"format": 1, "settings": {}, "pins": {}}


def test_a_pin_leaves_the_other_side_and_can_be_taken_away(client, store):
    first, second, *_ = listed(client)["settings"]
    data = first["data"]

    def pin(setting, side):
        return ask(client, "runs-pin", store=str(store), data=data, side=side, id=setting).json()["pins"][data]

    assert pin(first["id"], "a") == {"a": first["id"]}
    assert pin(second["id"], "b") == {"a": first["id"], "b": second["id"]}
    assert pin(first["id"], "b") == {"b": first["id"]}
    assert listed(client)["pins"] == {str(store): {data: {"b": first["id"]}}}
    ask(client, "runs-pin", store=str(store), data=data, side="b", id="")
    assert listed(client)["pins"] == {}


def test_two_settings_of_a_store_cannot_have_one_name(client, store):
    first, second, *_ = listed(client)["settings"]
    ask(client, "runs-mark", store=str(store), ids=[first["id"]], change={"name": "mine"})
    refused = ask(client, "runs-mark", store=str(store), ids=[second["id"]], change={"name": "mine"})
    assert refused.status_code == 400
    assert "another one has 'mine'. Choose another." in refused.json()["error"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "a\nb"}, "visible characters on one line"),
        ({"name": "x" * 121}, "at most 120"),
        ({"name": 3}, "got 3"),
        ({"note": "x" * 5001}, "at most 5,000 characters, got 5,001"),
        ({"add_tags": ["a,b"]}, "without a comma, got 'a,b'"),
        ({"add_tags": [" "]}, "without a comma"),
        ({"add_tags": [str(number) for number in range(21)]}, "at most 20 tags, got 21"),
        ({"star": 1}, "must state some of"),
        ({"colour": "red"}, "must state some of"),
        ({}, "must state some of"),
    ],
)
def test_wrong_marks_are_refused_in_words(client, store, change, says):
    first = listed(client)["settings"][0]
    refused = ask(client, "runs-mark", store=str(store), ids=[first["id"]], change=change)
    assert refused.status_code == 400
    assert says in refused.json()["error"]
    assert not (store / "names.json").exists()


def test_settings_that_are_not_there_cannot_be_marked(client, store):
    for ids in (["nope"], [], None, [3]):
        assert ask(client, "runs-mark", store=str(store), ids=ids, change={"star": True}).status_code == 400
    refused = ask(client, "runs-mark", store="/etc", ids=["x"], change={"star": True})
    assert "The store must be one of" in refused.json()["error"]
    pinned = ask(client, "runs-pin", store=str(store), data="other", side="a", id=listed(client)["settings"][0]["id"])
    assert "has other data than 'other'" in pinned.json()["error"]


def test_changes_of_many_people_are_all_kept(store):
    def star(number):
        change_marks(store, lambda marks: Marks(settings=dict(marks.settings) | {str(number): Mark(star=True)}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(star, range(40)))
    assert read_marks(store).marks.settings.keys() == set(map(str, range(40)))


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 1, "settings": {"x": {"star": "perhaps"}}, "pins": {}}'])
def test_a_damaged_file_is_told_and_set_aside(client, store, content):
    (store / "names.json").write_text(content)
    answer = listed(client)
    (problem,) = answer["problems"]
    assert problem.startswith(f"{store}/names.json is damaged (")
    assert "Restore it to see the names" in problem
    assert len(answer["settings"]) == 4
    assert (store / "names.json").read_text() == content
    first = answer["settings"][0]
    reply = ask(client, "runs-mark", store=str(store), ids=[first["id"]], change={"star": True}).json()
    (aside,) = store.glob("names.json.damaged-*")
    assert aside.read_text() == content
    assert f"set aside as {aside.name}" in reply["problem"]
    assert listed(client)["problems"] == []


def test_a_link_is_set_aside_and_its_target_stays(client, store, tmp_path):
    target = tmp_path / "mine.json"
    target.write_text('{"format": 1, "settings": {}, "pins": {}}')
    (store / "names.json").symlink_to(target)
    first = listed(client)["settings"][0]
    assert "must be a regular file" in listed(client)["problems"][0]
    ask(client, "runs-mark", store=str(store), ids=[first["id"]], change={"star": True})
    assert target.read_text() == '{"format": 1, "settings": {}, "pins": {}}'
    assert read_marks(store).marks.of(first["entry"]).star


def test_a_file_of_a_newer_version_is_left_alone(client, store):
    (store / "names.json").write_text('{"format": 2}')
    first = listed(client)["settings"][0]
    refused = ask(client, "runs-mark", store=str(store), ids=[first["id"]], change={"star": True})
    assert "has format 2, and this version of Frostbench reads 1. Update" in refused.json()["error"]
    assert (store / "names.json").read_text() == '{"format": 2}'


def test_a_store_that_cannot_be_written_is_told(store, monkeypatch):
    def refuse(path, tree):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(kept, "write_json", refuse)
    with pytest.raises(MarkError, match=r"cannot be written \(Permission denied\)\. Change the permissions"):
        change_marks(store, lambda marks: marks)
