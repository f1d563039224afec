"""The list of settings as CSV text."""

import csv
import io

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.speed.many_runs import write_many_runs


@pytest.fixture
def store(tmp_path):
    write_many_runs(tmp_path / "results", 3)
    return tmp_path / "results"


@pytest.fixture
def client(store):
    return TestClient(Starlette(routes=routes(Workspace(store.parent, (), store), "token")))


def ask(client, name, **asked):
    return client.post(f"/frostbench/api/{name}", json=asked).json()


def test_rows_are_in_the_order_of_the_request_with_means_and_marks(client, store):
    settings = client.get("/frostbench/api/runs").json()["settings"]
    formula = {"name": "=1+1", "note": "@home\r\nsecond line", "add_tags": ["-x"], "star": True}
    ask(client, "runs-mark", store=str(store), ids=[settings[2]["id"]], change=formula)
    ids = [settings[2]["id"], settings[0]["id"]]
    text = ask(client, "runs-csv", store=str(store), ids=ids)["text"]
    marked, plain = csv.DictReader(io.StringIO(text, newline=""))
    assert (marked["name"], marked["note"], marked["tags"]) == ("'=1+1", "'@home\r\nsecond line", "'-x")
    assert (marked["star"], plain["star"]) == ("yes", "")
    assert plain["name"] == settings[0]["name"]
    assert float(plain["macro_f1_fg"]) == settings[0]["values"]["macro_f1_fg"][0]
    assert (plain["seeds"], plain["runs"], plain["store"]) == ("0", settings[0]["keys"][0], str(store))
    first = settings[0]["changes"][0]
    assert f"{first['title']}: {first['old'] or '–'} → {first['new'] or '–'}" in plain["options"]


def test_a_setting_that_is_gone_is_told(client, store):
    assert "has no setting 'x'" in ask(client, "runs-csv", store=str(store), ids=["x"])["error"]
    assert "needs their ids" in ask(client, "runs-csv", store=str(store))["error"]
