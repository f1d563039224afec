"""Settings of runs as an address of the tab Train, which a browser test opens."""

import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from short_benches import SHORT
from starlette.applications import Starlette
from starlette.testclient import TestClient

from frostbench.app.forms import values_of
from frostbench.app.sides import ROWS, preset_spec, run_of
from frostbench.app.workbench.routes import routes
from frostbench.app.workspace import Workspace, _below
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.run import RunSpec

TOGGLES = {
    "margin": {"head.classifier.kind": "arcface", "head.classifier.margin": 0.2, "train.ema": 0.5},
    "ridge": {"preset": "ridge", "head.preprocess.std": False},
}


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("loading") / "results"
    found = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, toggles=TOGGLES, seeds=(0, 1))
    list(run_bench(found.model_copy(update={"ensembles": {"both": ("plain", "ridge")}})))
    return found


@pytest.fixture
def client(bench, cache):
    return TestClient(Starlette(routes=routes(Workspace(cache.parent, (), Path(bench.store)), "token")))


@pytest.fixture
def settings(client):
    return client.get("/frostbench/api/runs").json()["settings"]


def load(client, bench, **sides):
    return client.post("/frostbench/api/runs-load", json={"store": bench.store, **sides})


def address(reply):
    return {name: values[0] for name, values in parse_qs(urlsplit(reply["address"]).query, True).items()}


def spec_of_address(parameters, side):
    """What the form of the tab Train makes of an address: kinds first, then their options."""
    values = values_of(ROWS, preset_spec(parameters[side]))
    for row in sorted(ROWS, key=lambda row: len(row.needs)):
        text = parameters.get(f"{side}.{row.path}")
        if text is None or not row.is_active(values):
            continue
        plain = {"flag": text == "on", "names": [name.strip() for name in text.split(",") if name.strip()]}
        number = float(text) if row.control == "number" and text else None
        values[row.key] = plain.get(
            row.control, (int(number) if row.whole and number else number) if row.control == "number" else text
        )
    return run_of(values)


def test_the_address_states_exactly_the_settings_of_the_run(client, bench, settings):
    single = [setting for setting in settings if not setting["members"]]
    assert len(single) == 3
    for setting in single:
        reply = load(client, bench, b=setting["id"]).json()
        wanted = parse(RunSpec, dict(read_record(Path(bench.store), setting["keys"][0]).full_spec) | {"seed": 0})
        assert spec_of_address(address(reply), "b") == wanted
        assert reply["notes"] == []
        assert (address(reply)["data"], address(reply)["seeds"]) == (setting["here"], "2")


def test_two_settings_are_both_sides(client, bench, settings):
    first, second, *_ = (setting for setting in settings if not setting["members"])
    found = address(load(client, bench, a=first["id"], b=second["id"]).json())
    assert (found["a"], found["b"]) == (first["preset"], second["preset"])
    assert "b.data" not in found


def test_an_ensemble_cannot_be_loaded(client, bench, settings):
    (ensemble,) = (setting for setting in settings if setting["members"])
    assert "is an ensemble, which has no settings" in load(client, bench, b=ensemble["id"]).json()["error"]


def test_a_cache_that_the_page_does_not_show_is_told(bench, settings, tmp_path):
    client = TestClient(Starlette(routes=routes(Workspace(tmp_path, (), Path(bench.store)), "token")))
    setting = next(one for one in client.get("/frostbench/api/runs").json()["settings"] if not one["members"])
    refused = load(client, bench, b=setting["id"])
    assert f"is not below {tmp_path}" in refused.json()["error"]
    assert "frostbench app CACHE" in refused.json()["error"]


def test_a_copy_of_the_cache_is_known_by_its_content(bench, settings, cache, tmp_path):
    copied = shutil.copytree(cache, tmp_path / "under another name")
    _below.cache_clear()
    client = TestClient(Starlette(routes=routes(Workspace(tmp_path, (), Path(bench.store)), "token")))
    setting = next(one for one in client.get("/frostbench/api/runs").json()["settings"] if not one["members"])
    reply = load(client, bench, a=setting["id"]).json()
    assert (address(reply)["data"], reply["notes"]) == (str(copied), [])


def test_runs_with_another_split_are_told(bench, client, cache):
    other = bench.model_copy(update={"toggles": {}, "split": bench.split.model_copy(update={"seed": 5})})
    list(run_bench(other))
    settings = client.get("/frostbench/api/runs").json()["settings"]
    (only,) = (one for one in settings if sum(one["data"] == other_one["data"] for other_one in settings) == 1)
    (note,) = load(client, bench, a=only["id"]).json()["notes"]
    assert note.startswith("A: its runs have another split")


def test_a_request_without_a_setting_is_refused(client, bench):
    assert "as the page sends them" in load(client, bench).json()["error"]
    assert "has no setting 'nope'" in load(client, bench, a="nope").json()["error"]
