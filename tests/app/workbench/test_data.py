"""What the tab Data gets from the server, without a browser."""

import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from frostbench.app.workbench.background import MOST_KEPT, Background
from frostbench.app.workbench.data import labels as correcting
from frostbench.embedcache.index import leaks, load_or_make_map, neighbours, suspects
from frostbench.embedcache.labels.corrections import read_corrections
from frostbench.embedcache.labels.relabelling import Relabelling, relabelled
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.listing import read_items, write_items
from frostbench.embedcache.storage.store import write_manifest
from frostbench.embedcache.table import read_table


@pytest.fixture
def table(own):
    return read_table(own)


def ask(client, name, own, **more):
    return client.post(f"/frostbench/api/{name}", json={"cache": str(own), **more})


def finished(client, name, own):
    while True:
        reply = ask(client, name, own)
        assert reply.status_code == 200, reply.text
        if reply.headers["content-type"] != "application/json" or reply.json()["state"] != "computing":
            return reply


def test_images_have_ids_labels_and_roles(client, own, table):
    tree = ask(client, "data", own).json()
    assert tree["ids"] == table.ids.tolist()
    assert (tree["labels"], tree["class_names"]) == (table.labels.tolist(), list(table.class_names))
    roles = load_or_make_split(own, table, SplitSpec()).roles
    assert [tree["role_names"][role] for role in tree["roles"]] == roles.tolist()
    assert (tree["unreadable"], tree["groups"], tree["split_problem"]) == (1, None, "")
    assert (tree["first"], tree["checked"], tree["file"]) == ({}, [], f"{own}.labels.csv")
    assert tree["columns"] == {"avg": "efficientnet_lite0, 1,280 numbers"}


def test_checks_are_those_of_inspect(client, own, table):
    tree = finished(client, "checks", own).json()
    wanted = suspects(table).rows
    wanted = wanted[wanted["suspect"]]
    assert table.ids[tree["suspects"]["rows"]].tolist() == wanted["id"].tolist()
    names = np.array(table.class_names)
    assert names[tree["suspects"]["suggested"]].tolist() == wanted["suggested"].tolist()
    copies = leaks(table, load_or_make_split(own, table, SplitSpec()).roles)
    assert table.ids[tree["copies"]["rows"]].tolist() == copies.rows["id"].tolist()
    assert table.ids[tree["copies"]["train"]].tolist() == copies.rows["train_id"].tolist()
    assert tree["roles"] == copies.summary.to_dict("records")


def test_the_map_is_that_of_inspect(client, own, table):
    points = np.frombuffer(finished(client, "map", own).content, "<f4").reshape(-1, 2)
    wanted = load_or_make_map(own, table)
    np.testing.assert_allclose(points, wanted[["x", "y"]].to_numpy(), rtol=1e-6)


def test_nearest_images_are_those_of_inspect(client, own, table):
    tree = ask(client, "near", own, id=str(table.ids[3]), k=4).json()
    wanted = neighbours(table, 4, ids=[str(table.ids[3])]).rows
    assert table.ids[tree["rows"]].tolist() == wanted["neighbour"].tolist()
    assert tree["cosine"] == pytest.approx(wanted["cosine"].tolist(), abs=5e-4)


def test_corrections_are_kept_beside_the_cache_and_read_by_the_command_line(client, own, table):
    first, second, third, fourth = table.ids[[0, 1, 2, 3]].tolist()
    old, other = table.class_names[table.labels[0]], table.class_names[2]
    changes = {first: other, second: "", third: "brand new", fourth: table.class_names[table.labels[3]]}
    tree = ask(client, "correct", own, changes=changes, who="Ana").json()
    assert tree["class_names"] == [*table.class_names, "brand new"]
    assert tree["labels"][:4] == [2, -1, 3, table.labels[3]]
    assert tree["first"] == {str(row): int(table.labels[row]) for row in range(3)}
    assert tree["checked"] == [0, 1, 2, 3]
    lines = read_corrections(own.with_name("own.labels.csv"))
    assert lines[0][:4] == (first, old, other, "Ana")
    split = load_or_make_split(own, table, SplitSpec())
    changed = relabelled(table, split, Relabelling(lines))[0]
    assert second not in changed.ids.tolist()
    assert [changed.class_names[changed.labels[changed.ids.tolist().index(one)]] for one in (first, third)] == [
        other,
        "brand new",
    ]
    assert ask(client, "data", own).json()["labels"] == tree["labels"]


def test_corrections_can_be_taken_back(client, own, table):
    image, old = str(table.ids[0]), table.class_names[table.labels[0]]
    for new in (table.class_names[2], "", "brand new", old):
        tree = ask(client, "correct", own, changes={image: new}).json()
    assert (tree["labels"], tree["first"], tree["class_names"]) == (table.labels.tolist(), {}, list(table.class_names))
    assert len(read_corrections(own.with_name("own.labels.csv"))) == 4


def test_the_same_correction_twice_is_one_line(client, own, table):
    for _ in range(2):
        ask(client, "correct", own, changes={str(table.ids[0]): table.class_names[2]})
    assert len(read_corrections(own.with_name("own.labels.csv"))) == 1


def test_labels_to_check_follow_corrections(client, own, table):
    image = next(str(one) for one, label in zip(table.ids, table.labels, strict=True) if label == 0)
    row = table.ids.tolist().index(image)
    before = finished(client, "checks", own).json()["suspects"]
    ask(client, "correct", own, changes={image: table.class_names[1]})
    after = finished(client, "checks", own).json()["suspects"]
    assert row not in before["rows"]
    assert after["suggested"][after["rows"].index(row)] == 0


@pytest.mark.parametrize(
    ("changes", "who", "message"),
    [
        (None, "", "Corrections need the class of 1 to 10,000 images by id"),
        ({}, "", "Corrections need the class of 1 to 10,000 images by id"),
        ({"IMAGE": 3}, "", "A class's name has at most 200 visible characters on one line, got 3."),
        ({"IMAGE": "two\nlines"}, "", "visible characters on one line, got 'two\\nlines'"),
        ({"IMAGE": "a" * 201}, "", "at most 200 visible characters"),
        ({"IMAGE": "oak"}, ["Ana"], "A person's name has at most 200 visible characters"),
        ({"none.png": "oak"}, "", "has no image 'none.png'. Reload the page."),
    ],
)
def test_malformed_corrections_are_refused(client, own, table, changes, who, message):
    if changes:
        changes = {str(table.ids[0]) if key == "IMAGE" else key: new for key, new in changes.items()}
    reply = ask(client, "correct", own, changes=changes, who=who)
    assert (reply.status_code, message in reply.json()["error"]) == (400, True), reply.text
    assert not own.with_name("own.labels.csv").exists()


def test_too_many_corrections_at_once_are_refused(client, own, table, monkeypatch):
    monkeypatch.setattr(correcting, "MOST_CHANGES", 2)
    reply = ask(client, "correct", own, changes=dict.fromkeys(table.ids[:3].tolist(), "oak"))
    assert "1 to 2 images" in reply.json()["error"]


def test_corrections_of_labels_that_have_changed_are_told(client, own, table):
    own.with_name("own.labels.csv").write_text(f"id,old,new\n{table.ids[0]},other,oak\n")
    reply = ask(client, "data", own)
    assert reply.status_code == 400
    assert "A label correction must state the label that the image has in the cache" in reply.json()["error"]


@pytest.mark.parametrize("asked", [None, [], {}, {"cache": 3}, {"cache": "/etc"}])
@pytest.mark.parametrize("name", ["data", "checks", "map", "near", "correct"])
def test_only_caches_of_the_page_are_read(client, name, asked):
    reply = client.post(f"/frostbench/api/{name}", json=asked)
    assert reply.status_code == 400
    assert reply.json()["error"].startswith(("A request about a data set names its cache", "The cache must be one of"))


@pytest.mark.parametrize(("image", "k"), [("none.png", 3), (None, 3), ("IMAGE", 0), ("IMAGE", 25), ("IMAGE", "3")])
def test_other_requests_for_nearest_images_are_refused(client, own, table, image, k):
    reply = ask(client, "near", own, id=str(table.ids[0]) if image == "IMAGE" else image, k=k)
    assert reply.status_code == 400
    assert "none.png" in reply.json()["error"] or "need an id and a number of 1 to 24" in reply.json()["error"]


def test_caches_are_listed_and_damaged_ones_told(client, own, tmp_path):
    shutil.copytree(own, tmp_path / "damaged")
    (tmp_path / "damaged" / "items.parquet").write_bytes(b"nothing")
    tree = client.get("/frostbench/api/caches").json()
    assert [(one["images"], one["classes"]) for one in tree["caches"]] == [(92, 3)]
    assert tree["root"] == str(tmp_path.resolve())
    (problem,) = tree["problems"]
    assert problem.startswith(str(tmp_path / "damaged"))


def test_a_cache_without_a_possible_split_is_shown_without_roles(client, photos, tmp_path):
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.embedcache.backbones import load_backbone
    from frostbench.embedcache.sources.source import list_folder

    few = tmp_path / "few"
    for name in ("digit 0", "digit 1"):
        (few / name).mkdir(parents=True)
        shutil.copy(sorted((photos / name).iterdir())[0], few / name)
    embed_listing(list_folder(few), load_backbone("bundled", "efficientnet_lite0"), tmp_path / "tiny")
    tree = ask(client, "data", tmp_path / "tiny").json()
    assert tree["roles"] == [-1, -1]
    assert "so nothing can be held out" in tree["split_problem"]
    tree = finished(client, "checks", tmp_path / "tiny").json()
    assert "folds must be at least 2" in tree["reason"]
    assert (tree["copies"]["rows"], tree["roles"]) == ([], [])


def test_results_are_computed_once_in_the_background():
    background, go, calls = Background(), threading.Event(), []

    def compute():
        calls.append(1)
        go.wait(10)
        return "found"

    assert background.get("key", compute) is None
    assert background.get("key", compute) is None
    go.set()
    while (found := background.get("key", compute)) is None:
        pass
    assert (found, calls) == ("found", [1])


def test_an_error_in_the_background_is_told_and_tried_again():
    background, calls = Background(), []

    def compute():
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the first time")
        return "found"

    def ask_until_told():
        while background.get("key", compute) is None:
            pass

    with pytest.raises(ValueError, match="the first time"):
        ask_until_told()
    while (found := background.get("key", compute)) is None:
        pass
    assert (found, calls) == ("found", [1, 1])


def test_old_results_are_dropped():
    background, calls = Background(), []
    for key in [*range(MOST_KEPT + 2), MOST_KEPT + 1, 0]:
        while background.get(key, lambda key=key: calls.append(key) or "found") is None:
            pass
    assert calls == [*range(MOST_KEPT + 2), 0]


@pytest.fixture
def unlabelled(own, tmp_path):
    """A cache some of whose images have no label: all but three of each class."""
    folder, table = shutil.copytree(own, tmp_path / "unlabelled"), read_table(own)
    kept = {i for c in range(len(table.class_names)) for i in table.ids[table.labels == c][:3].tolist()}
    items = [item if item.id in kept else replace(item, label="") for item in read_items(folder)]
    write_items(folder, items)
    write_manifest(folder)
    return folder


def test_images_without_a_label_are_rows_without_role(client, unlabelled, table):
    tree = ask(client, "data", unlabelled).json()
    assert tree["ids"] == table.ids.tolist()
    labels = np.array(tree["labels"])
    assert (labels == -2).sum() == len(table.ids) - 3 * len(table.class_names)
    assert (labels[labels >= 0] == table.labels[labels >= 0]).all()
    assert (tree["first"], tree["checked"]) == ({}, [])
    assert {tree["roles"][row] for row in np.flatnonzero(labels == -2)} == {-1}
    points = np.frombuffer(finished(client, "map", unlabelled).content, "<f4")
    assert len(points) == 2 * len(table.ids)
    (first,) = np.flatnonzero(labels == -2)[:1]
    assert len(ask(client, "near", unlabelled, id=str(table.ids[first]), k=3).json()["rows"]) == 3


def test_what_to_label_next_is_ranked_until_all_have_been_looked_at(client, unlabelled, table):
    tree = finished(client, "next", unlabelled).json()
    labels = np.array(ask(client, "data", unlabelled).json()["labels"])
    assert tree["unlabelled"] == (labels == -2).sum()
    assert len(set(tree["rows"])) == len(tree["rows"]) == min(100, tree["unlabelled"])
    assert (labels[tree["rows"]] == -2).all()
    assert np.mean(np.array(tree["suggested"]) == table.labels[tree["rows"]]) > 1 / len(table.class_names)
    assert all(0 < one <= 1 for one in tree["confidence"])
    one, other = (str(table.ids[row]) for row in tree["rows"][:2])
    said = ask(client, "correct", unlabelled, changes={one: "new", other: ""}, who="Ana").json()
    assert said["class_names"][-1] == "new"
    assert said["labels"][tree["rows"][0]] == len(table.class_names)
    assert said["labels"][tree["rows"][1]] == -2
    assert said["first"] == {str(tree["rows"][0]): -2}
    assert said["checked"] == sorted(tree["rows"][:2])
    lines = read_corrections(unlabelled.with_name("unlabelled.labels.csv"))
    assert [line[:4] for line in lines] == [(one, "", "new", "Ana"), (other, "", "", "Ana")]
    again = finished(client, "next", unlabelled).json()
    assert not {*again["rows"]} & {*tree["rows"][:2]}
    ask(client, "correct", unlabelled, changes={one: table.class_names[0]})
    assert read_corrections(unlabelled.with_name("unlabelled.labels.csv"))[-1][:3] == (one, "new", table.class_names[0])
    rest = {str(i): "" for i in table.ids[np.array(ask(client, "data", unlabelled).json()["labels"]) == -2]}
    ask(client, "correct", unlabelled, changes=rest)
    assert finished(client, "next", unlabelled).json()["rows"] == []


def test_one_known_class_suggests_nothing(client, unlabelled, table):
    labels = np.array(ask(client, "data", unlabelled).json()["labels"])
    ask(client, "correct", unlabelled, changes={str(i): "" for i in table.ids[labels > 0]})
    tree = finished(client, "next", unlabelled).json()
    assert set(tree["suggested"]) == {-1}
    assert len(tree["rows"]) == min(100, (labels == -2).sum())


def test_large_caches_are_sampled(client, unlabelled, monkeypatch):
    monkeypatch.setattr("frostbench.app.workbench.data.unlabelled.MOST_ROWS", 7)
    tree = finished(client, "next", unlabelled).json()
    assert (tree["unlabelled"], len(tree["rows"])) == (7, 7)
