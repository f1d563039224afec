"""Settings of run stores: runs that differ in the seed are one line, named by what is rare."""

import json
from pathlib import Path

import pytest
from short_benches import SHORT

from frostbench.app.workbench.runs.naming import Change, name_of, nearest
from frostbench.app.workbench.runs.run_list import as_tree, list_settings
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.plan import BenchSpec

TOGGLES = {"smoothed": {"train.loss.smoothing.epsilon": 0.3}, "ridge": {"preset": "ridge"}}


@pytest.fixture(scope="module")
def bench(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("listed") / "results"
    base = {**SHORT, "train.schedule.batch_size": 32}
    found = BenchSpec(
        caches=(str(cache),), store=str(store), preset="plain", base=base, toggles=TOGGLES, seeds=(0, 1), name="listed"
    )
    list(run_bench(found.model_copy(update={"ensembles": {"both": ("plain", "ridge")}})))
    return found


@pytest.fixture
def store(bench):
    return Path(bench.store)


def test_runs_that_differ_in_the_seed_are_one_setting(bench, store):
    settings, problems = list_settings([store])
    rows = bench_rows(bench)[0].rows
    single = {setting.keys: setting for setting in settings if not setting.members}
    assert (set(single), problems) == (set(rows.values()), ())
    smoothed = single[rows["smoothed"]]
    assert smoothed.seeds == (0, 1)
    assert smoothed.values["macro_f1_fg"] == pytest.approx(
        [read_record(store, key).evaluations["select"].metrics["macro_f1_fg"] for key in smoothed.keys], abs=1e-6
    )
    assert len({setting.data for setting in settings}) == 1
    assert [setting.members for setting in settings if setting.members] == [2]


def test_names_begin_with_what_is_rare(bench, store):
    names = {setting.keys: setting.name for setting in list_settings([store])[0]}
    rows = bench_rows(bench)[0].rows
    assert names[rows["smoothed"]].startswith("plain, Label smoothing ε 0.3, ")
    assert names[rows["ridge"]].startswith("ridge, ")


def test_the_best_setting_comes_first(store):
    settings, _ = list_settings([store])
    means = [sum(setting.values["macro_f1_fg"]) / 2 for setting in settings]
    assert means == sorted(means, reverse=True)


def test_settings_become_json(store):
    first, *_ = json.loads(json.dumps(as_tree(list_settings([store])[0])))
    assert {"id", "name", "keys", "values", "changes"} <= first.keys()
    assert all(change.keys() == {"path", "title", "old", "new"} for change in first["changes"])


def test_a_store_that_cannot_be_read_is_told_and_the_others_are_listed(store, tmp_path):
    damaged = tmp_path / "damaged"
    (damaged / "runs" / "0123456789abcdef").mkdir(parents=True)
    (damaged / "runs" / "0123456789abcdef" / "record.json").write_text("{")
    settings, (problem,) = list_settings([damaged, store])
    assert problem.startswith(f"{damaged}: ")
    assert {setting.store for setting in settings} == {str(store)}


def test_an_empty_store_has_no_settings(tmp_path):
    (tmp_path / "runs").mkdir()
    assert list_settings([tmp_path]) == ((), ())


def test_the_nearest_preset_and_what_differs():
    assert nearest({}) == ("plain", ())
    start, changes = nearest({"head.classifier.kind": "arcface", "train.ema": 0.5})
    assert start == "plain"
    assert {(change.path, change.old, change.new) for change in changes} == {
        ("head.classifier.kind", "linear", "arcface"),
        ("train.ema", "0", "0.5"),
    }


def test_names_count_what_they_leave_out():
    changes = [Change(f"p{number}", f"T{number}", "", str(number)) for number in range(5)]
    shares = {("p0", "0"): 0.9, ("p4", "4"): 0.1}
    assert name_of("full", changes, shares) == "full, T1 1, T2 2, T3 3, 2 more"
    assert name_of("full", [Change("p", "T", "1", "")], {}) == "full, T as default"


def test_ids_stay_when_seeds_are_added(bench, store):
    """The last test, because it adds runs to the store of the module."""
    before = {setting.id: setting.seeds for setting in list_settings([store])[0]}
    list(run_bench(bench.model_copy(update={"seeds": (2,)})))
    after = {setting.id: setting.seeds for setting in list_settings([store])[0]}
    assert before.keys() == after.keys()
    assert sorted(after.values()) == [(0, 1), (0, 1, 2), (0, 1, 2), (0, 1, 2)]
