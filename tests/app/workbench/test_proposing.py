"""What the server gathers for the rules of what to do next, from runs that were trained."""

from pathlib import Path

import pytest
from short_benches import SHORT
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.reveals import revealed_keys
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("proposed") / "results"
    toggles = {"slow": {"train.optim.lr": 3e-6}, "ridge": {"preset": "ridge"}}
    found = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, toggles=toggles, seeds=(0, 1))
    list(run_bench(found))
    return found


@pytest.fixture
def client(bench, cache):
    return TestClient(Starlette(routes=routes(Workspace(cache.parent, (), Path(bench.store)), "token")))


def ask(client, name, **asked):
    reply = client.post(f"/frostbench/api/{name}", json=asked)
    return reply.json()


def test_the_server_gathers_what_the_rules_need(client, bench, cache):
    rows = bench_rows(bench)[0].rows
    settings = client.get("/frostbench/api/runs").json()["settings"]
    ids = {name: next(one["id"] for one in settings if set(one["keys"]) == set(rows[name])) for name in rows}
    store, here = bench.store, settings[0]["here"]

    def steps(**sides):
        return {step["id"]: step for step in ask(client, "next-steps", store=store, **sides)["steps"]}

    before = steps(a=ids["plain"], b=ids["slow"])
    assert next(iter(before)) == "unchecked_data"
    assert before["five_line_alternative"]["href"].endswith(f"&a={ids['slow']}&b={ids['ridge']}")
    assert "several_options" not in before
    assert "several_options" in steps(a=ids["slow"], b=ids["ridge"])
    while (checks := ask(client, "checks", cache=here))["state"] == "computing":
        pass
    after = steps(a=ids["plain"], b=ids["slow"])
    assert "unchecked_data" not in after
    held = sum(role["rows"] for role in checks["roles"])
    copies = len(checks["copies"]["rows"])
    assert ("near_copies" in after) == bool(copies)
    assert not copies or after["near_copies"]["title"].startswith(f"{copies} of {held} held-out images")
    assert ("labels_to_check" in after) == bool(checks["suspects"]["rows"])


def test_test_images_count_only_once_they_were_looked_at(client, bench):
    rows = bench_rows(bench)[0].rows
    assert revealed_keys(Path(bench.store)) == frozenset()
    ask(client, "compare", store=bench.store, a=list(rows["plain"]), b=list(rows["slow"]), reveal=True)
    assert revealed_keys(Path(bench.store)) == {*rows["plain"], *rows["slow"]}


def test_settings_of_other_data_are_refused(client, bench):
    assert "as the page sends them" in ask(client, "next-steps", store=bench.store)["error"]
    assert "has no setting 'x'" in ask(client, "next-steps", store=bench.store, a="x")["error"]
