"""Settings of run stores: runs that differ in the seed are one line, named by what is rare."""

import json
import shutil
from pathlib import Path

import pytest
from short_benches import SHORT

from frostbench.app.workbench.runs.naming import Change, name_of, nearest
from frostbench.app.workbench.runs.run_list import as_tree, list_settings
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.settings.parsing import leaves, parse, preset, preset_names
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

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


def test_damaged_records_are_named_and_the_others_of_their_store_are_listed(store, tmp_path):
    damaged = shutil.copytree(store, tmp_path / "damaged")
    before, _ = list_settings([damaged])
    key = before[0].keys[0]
    record = damaged / "runs" / key / "record.json"
    record.write_text("{")
    (damaged / "runs" / "a copy").mkdir()
    (damaged / "runs" / "a copy" / "record.json").write_text("{}")
    shutil.copytree(damaged / "runs" / before[1].keys[0], damaged / "runs" / "doubled")
    (damaged / "runs" / "notes.txt").write_text("not a run")
    settings, problems = list_settings([damaged])
    assert {key for one in settings for key in one.keys} == {key for one in before for key in one.keys} - {key}
    assert len(problems) == 3
    (copied,) = (problem for problem in problems if problem.startswith(f"{damaged}/runs/a copy: A run key must"))
    (cut,) = (problem for problem in problems if problem.startswith(f"{record} must be a record of format 1"))
    (doubled,) = (problem for problem in problems if f"{damaged}/runs/doubled holds run {before[1].keys[0]}" in problem)
    assert "Delete its folder" in cut
    assert doubled.endswith("Is it a copy? Move it out of the store.")
    assert "'a copy'" in copied


def test_a_mended_record_is_listed_again(store, tmp_path):
    mended = shutil.copytree(store, tmp_path / "mended")
    record = mended / "runs" / list_settings([mended])[0][0].keys[0] / "record.json"
    content = record.read_bytes()
    record.write_bytes(b"{")
    assert len(list_settings([mended])[1]) == 1
    record.write_bytes(content)
    assert list_settings([mended])[1] == ()
    assert len(list_settings([mended])[0]) == len(list_settings([store])[0])


def test_of_many_damaged_records_some_are_named_and_the_others_counted(tmp_path):
    for number in range(8):
        folder = tmp_path / "runs" / f"run-{number}"
        folder.mkdir(parents=True)
        (folder / "record.json").write_text("{")
    settings, problems = list_settings([tmp_path])
    assert (settings, len(problems)) == ((), 6)
    assert problems[-1] == f"{tmp_path}: 3 more records cannot be read."


def test_settings_are_read_again_only_when_a_record_changes(store, tmp_path):
    changing = shutil.copytree(store, tmp_path / "changing")
    before, _ = list_settings([changing])
    assert all(one is other for one, other in zip(before, list_settings([changing])[0], strict=True))
    shutil.rmtree(changing / "runs" / before[0].keys[0])
    after, _ = list_settings([changing])
    assert before[0].keys[0] not in {key for one in after for key in one.keys}


@pytest.mark.parametrize(
    "changed", [{}, {"train.optim.lr": 0.5}, {"head.classifier.kind": "ridge"}, {"columns": ["x"]}]
)
def test_the_nearest_preset_is_the_one_with_the_fewest_differences(changed):
    """Counted one option at a time, which takes too long for 10,000 settings."""
    defaults = leaves(RunSpec().model_dump(mode="json"))
    for name in preset_names():
        settings = leaves(canonical(parse(RunSpec, preset(name)))) | changed

        def differences(other, settings=settings):
            start = leaves(canonical(parse(RunSpec, preset(other))))
            paths = {*settings, *start}
            return sum(settings.get(p, defaults.get(p)) != start.get(p, defaults.get(p)) for p in paths)

        fewest = min(preset_names(), key=lambda other: (differences(other), other != "plain", other))
        start, changes = nearest(settings)
        assert (start, len(changes)) == (fewest, differences(fewest))


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
