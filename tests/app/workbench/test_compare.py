"""What the tab Compare gets from the server, without a browser."""

from pathlib import Path

import numpy as np
import pytest
from short_benches import SHORT
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.compare import tree as drawing
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.comparison.ab import BREAKS, FIXES, pair
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_outcomes
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.index import nearest_among
from frostbench.embedcache.table import read_table


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("side_by_side") / "results"
    toggles = {"slow": {"train.optim.lr": 3e-6}}
    found = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, toggles=toggles, seeds=(0, 1))
    list(run_bench(found))
    return found


@pytest.fixture
def client(bench, cache):
    return TestClient(Starlette(routes=routes(Workspace(cache.parent, (), Path(bench.store)), "token")))


@pytest.fixture
def sides(bench):
    rows = bench_rows(bench)[0].rows
    return {"store": bench.store, "a": list(rows["slow"]), "b": list(rows["plain"])}


def ask(client, name, **asked):
    return client.post(f"/frostbench/api/{name}", json=asked)


def test_numbers_are_those_of_the_comparison(client, bench, sides):
    tree = ask(client, "compare", **sides).json()
    wanted = pair(Path(bench.store), sides["a"], sides["b"])
    for one in tree["metrics"]:
        line = wanted.comparison.line("B", one["key"])
        for name, value in (("b", "value"), ("delta", "delta"), ("low", "low"), ("high", "high")):
            assert one[name] == (float(line[value]) if np.isfinite(line[value]) else None)
        assert one["verdict"] == line["verdict"]
    assert [one["name"] for one in tree["classes"]] == list(wanted.class_names)
    assert [(one["a"], one["b"]) for one in tree["classes"]] == [one.f1 for one in wanted.classes]
    assert tree["cells"] == [[one.label, one.predicted, round(one.rows, 3)] for one in wanted.confusion]
    assert (tree["role"], tree["images"], tree["seeds"]) == ("select", wanted.comparison.n_rows, [0, 1])
    assert [one["path"] for one in tree["options"]] == ["train.optim.lr"]
    assert (tree["options"][0]["title"], tree["options"][0]["a"]) == ("Learning rate", "3e-06")
    assert tree["sides"]["b"]["bins"]["rows"] == list(wanted.sides[1].after.rows)


def test_images_are_in_the_order_of_what_is_said(client, bench, sides):
    tree = ask(client, "compare", **sides).json()
    flips = pair(Path(bench.store), sides["a"], sides["b"]).flips
    labels, a, b = np.array(tree["labels"]), *(np.array(tree["sides"][one]["said"][0]) for one in "ab")
    ids = np.array(tree["ids"])
    assert ids[(a != labels) & (b == labels)].tolist() == list(flips.ids[FIXES])
    assert ids[(a == labels) & (b != labels)].tolist() == list(flips.ids[BREAKS])
    assert flips.rows[FIXES] > 0
    for side, key in (("a", sides["a"][1]), ("b", sides["b"][1])):
        rows = read_outcomes(Path(bench.store), key, "select")
        assert tree["sides"][side]["said"][1] == rows["predicted"].tolist()
        assert tree["sides"][side]["confidence"][1] == pytest.approx(rows["confidence"].tolist(), abs=1e-4)


def test_test_images_are_shown_only_when_asked_and_counted(client, sides):
    assert ask(client, "compare", **sides).json()["reveals"] == 0
    tree = ask(client, "compare", **sides, reveal=True).json()
    assert (tree["role"], tree["reveals"]) == ("test", 1)
    assert ask(client, "compare", **sides, reveal=True).json()["reveals"] == 2
    tree = ask(client, "compare", **sides, reveal="yes").json()
    assert (tree["role"], tree["reveals"]) == ("select", 2)


def test_only_the_largest_changes_are_sent(client, sides, monkeypatch):
    everything = ask(client, "compare", **sides).json()["cells"]
    monkeypatch.setattr(drawing, "MOST_CELLS", 2)
    tree = ask(client, "compare", **sides).json()
    assert (tree["cells"], tree["more_cells"]) == (everything[:2], len(everything) - 2)


def test_reasons_are_the_nearest_images_that_were_not_held_out(client, bench, cache, sides):
    key, store = sides["b"][0], Path(bench.store)
    held = {one for role in ("select", "test") for one in read_outcomes(store, key, role)["id"]}
    table, image = read_table(cache), read_outcomes(store, key, "select")["id"][0]
    tree = ask(client, "reasons", store=bench.store, key=key, cache=str(cache), id=image, k=5).json()
    rows, cosine = nearest_among(table, image, ~np.isin(table.ids, list(held)), 5)
    assert tree["ids"] == table.ids[rows].tolist()
    assert tree["labels"] == [table.class_names[label] for label in table.labels[rows]]
    assert tree["cosine"] == pytest.approx(cosine.tolist(), abs=5e-4)
    assert not held & set(tree["ids"])


@pytest.mark.parametrize("change", [{"a": None}, {"b": []}, {"a": [3]}, {"b": "key"}, {"a": ["a"] * 101}])
def test_malformed_comparisons_are_refused(client, sides, change):
    reply = ask(client, "compare", **(sides | change))
    assert reply.status_code == 400
    assert reply.json()["error"].startswith("A comparison needs a store, and 1 to 100 run keys for each of a and b")


def test_a_side_against_itself_is_refused(client, sides):
    assert "A and B are the same run" in ask(client, "compare", **(sides | {"a": sides["b"]})).json()["error"]


def test_only_stores_and_caches_of_the_page_are_read(client, cache, sides, tmp_path):
    reply = ask(client, "compare", **(sides | {"store": str(tmp_path)}))
    assert "The store must be one of " in reply.json()["error"]
    asked = {"store": sides["store"], "key": sides["b"][0], "cache": str(tmp_path), "id": "a", "k": 3}
    assert "The cache must be one of " in ask(client, "reasons", **asked).json()["error"]
    assert "The store must be one of " in ask(client, "reasons", **(asked | {"store": "/etc"})).json()["error"]
    assert ask(client, "reasons", **(asked | {"k": 99})).json()["error"].startswith("Nearest images need an id")
    assert client.post("/frostbench/api/compare", json=[]).status_code == 400
