"""Existing runs are found by their keys in any store below the folder."""

from pathlib import Path

import pytest

from frostbench.app import finding, workspace
from frostbench.app.jobs import read
from frostbench.app.starting import submit_one
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec

SHORT = {"train.schedule.epochs": 2, "train.schedule.min_steps": 0}


@pytest.fixture
def here(cache, tmp_path, monkeypatch):
    """A folder with a cache."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").symlink_to(cache)
    workspace._below.cache_clear()
    yield Workspace(Path(), (Path("mine"),), Path("results"))
    workspace._below.cache_clear()


def bench(seeds=(0, 1), store="elsewhere/kept", **base):
    tree = {"name": "A", "caches": ["mine"], "preset": "plain", "base": SHORT | base, "store": store}
    return tree | {"seeds": list(seeds)}


def trained(tree):
    return list(run_bench(parse(BenchSpec, tree)))


def test_runs_of_another_store_are_taken_over_without_a_worker(here, monkeypatch):
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda folder, *_: pytest.fail("a worker was started"))
    trained(bench())
    requested = bench(store="results")
    job = read(here.store, submit_one("A", requested, here))
    assert (job.state, job.message) == ("done", "2 found (some in elsewhere/kept), 0 trained")
    assert job.keys == finding.keys_of(requested)
    assert all((here.store / "runs" / key / "head").is_dir() for key in job.keys.values())
    # The runs are in the page's own store now.
    again = read(here.store, submit_one("B", requested, here))
    assert again.message == "2 found, 0 trained"
    assert "2 in results, 2 in elsewhere/kept" in here.describe_runs()


def test_some_existing_runs_are_taken_over_and_the_rest_trained(here, monkeypatch):
    started = []
    monkeypatch.setattr("frostbench.app.jobs.queue.start", lambda folder, *_: started.append(folder.name))
    trained(bench(seeds=(1,)))
    requested = bench(seeds=(0, 1), store="results")
    job = submit_one("A", requested, here)
    assert started == [job]
    keys = finding.keys_of(requested)
    assert [(here.store / "runs" / keys[seed]).is_dir() for seed in (0, 1)] == [False, True]


def test_without_a_split_or_with_a_damaged_cache_there_are_no_keys(here):
    split = {"seed": 987_654}
    before = sorted(Path("mine/splits").glob("*"))
    assert finding.keys_of(bench() | {"split": split}) == {}
    assert sorted(Path("mine/splits").glob("*")) == before
    assert finding.keys_of(bench() | {"caches": ["gone"]}) == {}
    assert finding.keys_of(bench(**{"train.optim.lr": -1})) == {}


def test_stores_are_found_below_the_folder(tmp_path):
    for store in ("results", "a/b/kept", "one/runs/x"):
        (tmp_path / store / "runs" / "0123").mkdir(parents=True)
        (tmp_path / store / "runs" / "0123" / "record.json").write_text("{}")
    (tmp_path / "empty" / "runs" / "0123").mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "runs").symlink_to(tmp_path / "results" / "runs")
    (tmp_path / "a" / "b" / "kept" / "cache").mkdir()
    for name in ("cache.json", "manifest.json"):
        (tmp_path / "a" / "b" / "kept" / "cache" / name).write_text("{}")
    there = Workspace(tmp_path, (), tmp_path / "results")
    assert there.other_stores() == [tmp_path / "a" / "b" / "kept", tmp_path / "one" / "runs" / "x"]
    assert there.cache_names() == [str(tmp_path / "a" / "b" / "kept" / "cache")]


def test_a_plugin_is_only_executed_for_its_keys_if_it_may_be(here, tmp_path):
    ran, plugin = tmp_path / "ran", tmp_path / "mine.py"
    plugin.write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    named = bench(**{"train.loss.point": {"kind": "external", "file": str(plugin)}})
    assert (finding.keys_of(named), ran.exists()) == ({}, False)
    assert (finding.keys_by_row(named | {"plugins": [str(plugin)]}), ran.exists()) == ({}, False)
    assert (finding.keys_of(named, [plugin]), ran.exists()) == ({}, True)
