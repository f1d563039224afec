"""What the tab Images gets from the server, without a browser."""

from pathlib import Path

import pytest
from short_benches import SHORT
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_outcomes, read_record
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("predicted") / "results"
    short = {**SHORT, "train.optim.lr": 3e-6}
    found = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=short, seeds=(0, 1, 2))
    list(run_bench(found))
    return found


@pytest.fixture
def client(bench):
    return TestClient(Starlette(routes=routes(Workspace(Path(bench.store).parent, (), Path(bench.store)), "token")))


def keys_of(bench):
    return list(bench_rows(bench)[0].rows["plain"])


def test_predictions_are_those_of_the_runs(client, bench):
    keys = keys_of(bench)
    tree = client.post("/frostbench/api/predictions", json={"store": bench.store, "keys": keys}).json()
    runs = [read_outcomes(Path(bench.store), key, "select") for key in keys]
    assert tree["ids"] == runs[0]["id"].tolist()
    assert tree["class_names"] == list(read_record(Path(bench.store), keys[0]).data.class_names)
    differ = 0
    for row in range(len(tree["ids"])):
        said = [int(run["predicted"][row]) for run in runs]
        most = max(said.count(one) for one in said)
        assert tree["said"][row] == min(one for one in said if said.count(one) == most)
        assert tree["right"][row] == pytest.approx(said.count(int(runs[0]["label"][row])) / 3, abs=1e-4)
        assert tree["confidence"][row] == pytest.approx(sum(run["confidence"][row] for run in runs) / 3, abs=1e-4)
        differ += len(set(said)) > 1
    assert differ > 0, "the runs should not agree about every image"


@pytest.mark.parametrize("keys", [None, [], "a", [3], ["a"] * 101])
def test_malformed_requests_are_refused(client, bench, keys):
    reply = client.post("/frostbench/api/predictions", json={"store": bench.store, "keys": keys})
    assert reply.status_code == 400
    assert reply.json()["error"] == "Predictions need a store and 1 to 100 run keys, as the page sends them."


def test_only_stores_of_the_page_are_read(client, bench, tmp_path):
    reply = client.post("/frostbench/api/predictions", json={"store": str(tmp_path), "keys": keys_of(bench)})
    assert "The store must be one of " in reply.json()["error"]


def test_runs_that_are_not_there_are_told(client, bench):
    reply = client.post("/frostbench/api/predictions", json={"store": bench.store, "keys": ["0" * 16]})
    assert (reply.status_code, "0" * 16 in reply.json()["error"]) == (400, True)


def test_runs_on_other_images_are_not_mixed(client, bench, cache):
    other = bench.model_copy(update={"split": bench.split.model_copy(update={"seed": 7})})
    list(run_bench(other))
    keys = [keys_of(bench)[0], keys_of(other)[0]]
    reply = client.post("/frostbench/api/predictions", json={"store": bench.store, "keys": keys})
    assert reply.json()["error"].startswith("Predictions need runs on the same images and classes.")
