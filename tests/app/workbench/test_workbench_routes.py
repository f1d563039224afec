"""Documents, scripts and data of the workbench, without a browser."""

from pathlib import Path

import pytest
from short_benches import SHORT
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench import routes as routing
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("compared") / "results"
    toggles = {"lda": {"preset": "lda"}, "ridge": {"preset": "ridge"}}
    found = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, toggles=toggles, seeds=(0, 1))
    list(run_bench(found))
    return found


@pytest.fixture
def workspace(bench):
    return Workspace(Path(bench.store).parent, (), Path(bench.store))


@pytest.fixture
def client(workspace):
    return TestClient(Starlette(routes=routes(workspace, "a<token>")))


def test_a_document_has_its_tab_token_and_script(client):
    reply = client.get("/runs")
    assert reply.headers["content-type"].startswith("text/html")
    assert 'content="a&lt;token&gt;"' in reply.text
    assert '<a href="/runs" aria-current=page>Runs</a>' in reply.text
    assert '<script type="module" src="/frostbench/static/runs/runs.js">' in reply.text


@pytest.mark.parametrize(("name", "kind"), [("runs/runs.js", "text/javascript"), ("shared/shell.css", "text/css")])
def test_scripts_and_styles_are_sent(client, name, kind):
    reply = client.get(f"/frostbench/static/{name}")
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (200, kind)


@pytest.mark.parametrize(
    "name",
    [
        "shared/none.js",
        "..%2froutes.py",
        "shared%2f..%2f..%2froutes.py",
        "%2e%2e/routes.py",
        "runs/runs",
        "shared/.css",
        "shared",
    ],
)
def test_other_files_are_not_sent(client, name):
    assert client.get(f"/frostbench/static/{name}").status_code == 404


def test_runs_are_listed(client, bench):
    reply = client.get("/frostbench/api/runs").json()
    assert {tuple(one["keys"]) for one in reply["settings"]} == set(bench_rows(bench)[0].rows.values())
    assert (reply["problems"], reply["stores"]) == ([], [bench.store])


def test_caches_of_runs_have_the_names_of_the_page(bench, cache):
    for workspace, here in (
        (Workspace(cache.parent, (), Path(bench.store)), str(cache)),
        (Workspace(Path(bench.store).parent, (), Path(bench.store)), ""),
    ):
        client = TestClient(Starlette(routes=routes(workspace, "token")))
        assert {one["here"] for one in client.get("/frostbench/api/runs").json()["settings"]} == {here}


def test_differences_are_those_of_compare(client, bench, workspace):
    rows = bench_rows(bench)[0].rows
    asked = {
        "store": bench.store,
        "base": list(rows["lda"]),
        "rows": {name: list(rows[name]) for name in ("plain", "ridge")},
    }
    reply = client.post("/frostbench/api/differences", json=asked).json()
    wanted = compare(workspace.store, {"lda": rows["lda"], "plain": rows["plain"], "ridge": rows["ridge"]}, "lda")
    for name in ("plain", "ridge"):
        for metric in ("macro_f1_fg", "nll"):
            line = wanted.line(name, metric)
            assert reply["lines"][name][metric] == {key: line[key] for key in ("delta", "low", "high", "verdict")}
    assert (reply["images"], reply["groups"], reply["seeds"]) == (wanted.n_rows, wanted.n_groups, [0, 1])


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {"store": "STORE", "base": ["a"]},
        {"store": "STORE", "base": "a", "rows": {}},
        {"store": "STORE", "base": ["a"], "rows": {"b": [1]}},
        {"store": "STORE", "base": ["a"], "rows": {str(number): ["b"] for number in range(60)}},
    ],
)
def test_malformed_comparisons_are_refused(client, bench, asked):
    if isinstance(asked, dict):
        asked = asked | {"store": bench.store}
    reply = client.post("/frostbench/api/differences", json=asked)
    assert reply.status_code == 400
    assert reply.json()["error"] == "A comparison needs store, base and rows, as the page sends them."


def test_only_stores_of_the_page_are_read(client, tmp_path):
    reply = client.post("/frostbench/api/differences", json={"store": str(tmp_path), "base": ["a"], "rows": {}})
    assert "The store must be one of " in reply.json()["error"]


@pytest.mark.parametrize("key", ["../../etc", "0" * 16])
def test_keys_that_do_not_exist_are_an_error(client, bench, key):
    asked = {"store": bench.store, "base": [key], "rows": {"b": [key]}}
    reply = client.post("/frostbench/api/differences", json=asked)
    assert reply.status_code == 400
    assert key in reply.json()["error"]


def test_jobs_are_summarised(client):
    assert client.get("/frostbench/api/jobs").json() == {"unfinished": 0, "share": 0, "text": "", "embedding": None}


def test_unknown_data_broken_json_and_large_bodies_are_refused(client, monkeypatch):
    assert client.get("/frostbench/api/none").json() == {"error": "The page has no data called 'none'."}
    assert client.post("/frostbench/api/differences", content=b"{").status_code == 400
    monkeypatch.setattr(routing, "MOST_BYTES", 10)
    reply = client.post("/frostbench/api/differences", content=b"[1, 2, 3, 4]")
    assert (reply.status_code, reply.json()["error"]) == (413, "A request may have at most 10 bytes, got 12.")
