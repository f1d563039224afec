from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import benchmarks.runner as runner
import training.steps as steps
from benchmarks.evaluate import table_to_data
from benchmarks.events import (
    BenchDone,
    BenchStopped,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunFailed,
    RunSkipped,
)
from benchmarks.plan import BenchSpec
from benchmarks.runner import bench_rows, run_bench
from benchmarks.settings import SettingsError, run_key
from benchmarks.store import count_runs, is_finished, read_outcomes, read_records, run_folder
from embedcache.splits.making import SplitSpec, load_or_make_split
from embedcache.table import read_table
from heads.export import load
from training.checkpoint import Checkpoints
from training.engine import ENGINE_VERSION
from training.events import Failed, Finished
from training.metrics import all_metrics
from training.run import RunSpec
from training.weights import EffectiveWeight

SHORT = {
    "train.schedule.epochs": 3,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 64,
    "train.optim.lr": 0.02,
}


def bench_of(cache, **fields):
    known = {"caches": (str(cache),), "store": str(cache.parent / "runs"), "base": SHORT, "seeds": (0, 1)}
    return BenchSpec(**(known | fields))


@pytest.fixture
def fits(monkeypatch):
    """How many runs each call of fit was given."""
    calls = []
    real = runner.fit

    def counted(runs, data, stop, checkpoints):
        calls.append(len(runs))
        return real(runs, data, stop, checkpoints)

    monkeypatch.setattr(runner, "fit", counted)
    return calls


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_a_second_run_of_a_bench_trains_nothing(cache, fits):
    bench = bench_of(cache, toggles={"calibrated": {"posthoc.calibration.kind": "temperature"}})
    first = list(run_bench(bench))
    assert (fits, len(kinds(first, RunDone))) == ([4], 4)
    second = list(run_bench(bench))
    assert fits == [4]
    assert not kinds(second, RunDone)
    assert {event.key for event in kinds(second, RunSkipped)} == {event.record.key for event in kinds(first, RunDone)}
    assert (second[-1].trained, second[-1].skipped) == (0, 4)


def test_only_what_is_new_is_trained(cache, fits):
    list(run_bench(bench_of(cache)))
    list(run_bench(bench_of(cache, seeds=(0, 1, 2), toggles={"slow": {"train.optim.lr": 0.001}})))
    assert fits == [2, 4]


def test_events_tell_rows_epochs_and_warnings_once(cache):
    events = list(run_bench(bench_of(cache, toggles={"adjusted": {"posthoc.adjustment.tau": 1}})))
    raised = "train.schedule.epochs=4 becomes 334, for min_steps asks for 1000 steps and 142 rows give 3 an epoch"
    short = bench_of(cache, base={"train.schedule.epochs": 4, "train.schedule.batch_size": 64}, seeds=(0,))
    assert next(event for event in run_bench(short) if isinstance(event, RowStarted)).warnings == (raised,)
    assert isinstance(events[0], CacheOpened)
    assert events[0].rows == {"train": 142, "select": 44, "calibrate": 30, "test": 56}
    rows = kinds(events, RowStarted)
    assert [(row.row, row.number, row.rows, len(row.warnings)) for row in rows] == [
        ("baseline", 1, 2, 0),
        ("adjusted", 2, 2, 1),
    ]
    assert all(events.index(row) < events.index(kinds(events, RunEpoch)[0]) for row in rows)
    assert [(e.row, e.seed, e.epoch, e.epochs) for e in kinds(events, RunEpoch)] == [
        (row, seed, epoch, 3) for seed in (0, 1) for epoch in (1, 2, 3) for row in ("baseline", "adjusted")
    ]
    assert isinstance(events[-1], BenchDone)


def test_runs_that_were_trained_together_say_so_and_share_their_seconds(cache):
    toggles = {"slow": {"train.optim.lr": 0.001}, "mlp": {"head.body.kind": "mlp", "head.body.hidden": [4]}}
    done = kinds(run_bench(bench_of(cache, seeds=(0,), toggles=toggles)), RunDone)
    assert {event.row: event.record.together for event in done} == {"baseline": 2, "slow": 2, "mlp": 1}
    first, second = (event.record.seconds for event in done[:2])
    assert first == pytest.approx(second, abs=0.5)


def test_a_run_that_fails_is_told_and_the_others_are_kept(cache):
    bench = bench_of(cache, toggles={"wild": {"train.optim.kind": "sgd"}})
    real = runner.fit

    def failing(runs, data, stop, checkpoints):
        for event in real(runs, data, stop, checkpoints):
            is_wild = runs[event.run].train.optim.kind == "sgd"
            if not is_wild:
                yield event
            elif isinstance(event, Finished):
                yield Failed(event.run, "it diverged. Lower train.optim.lr.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "fit", failing)
        *events, end = run_bench(bench)
    wanted = [RunFailed(str(cache), "wild", seed, "it diverged. Lower train.optim.lr.") for seed in (0, 1)]
    assert kinds(events, RunFailed) == wanted
    assert (end.trained, end.skipped, end.failed) == (2, 0, tuple(wanted))
    again = list(run_bench(bench))
    assert {event.row for event in kinds(again, RunDone)} == {"wild"}
    assert again[-1].failed == ()


def test_a_stopped_run_is_not_kept_and_finished_ones_are(cache, fits):
    asked = iter([False, False, False, True])
    events = list(run_bench(bench_of(cache), stop=lambda: next(asked, True)))
    assert isinstance(events[-1], BenchStopped)
    done = kinds(events, RunDone)
    assert [event.record.seed for event in done] == [0]
    assert len(read_records(cache.parent / "runs")) == 1
    assert [event.record.seed for event in kinds(run_bench(bench_of(cache)), RunDone)] == [1]


def test_a_stopped_run_can_be_kept_and_is_never_the_finished_one(cache):
    bench, store = bench_of(cache), cache.parent / "runs"
    key = bench_rows(bench)[0].rows["baseline"][0]
    for _ in range(2):
        asked = iter([False, True])
        *events, end = run_bench(bench, stop=lambda: next(asked, True), keep_stopped=True)  # noqa: B023
        assert end == BenchStopped("bench", 0)
        (done,) = kinds(events, RunDone)
        assert (done.record.key, done.record.reason) == (f"{key}-stopped-2", "stopped")
        assert done.folder == run_folder(store, f"{key}-stopped-2")
    best = [event.best_epoch for event in kinds(events, RunEpoch)]
    assert (len(best), done.record.epoch) == (2, best[-1])
    assert done.record.curve["macro_f1_fg"][best[-1] - 1] == max(done.record.curve["macro_f1_fg"])
    assert load(done.folder / "head").head.facts["key"] == f"{key}-stopped-2"
    assert not is_finished(store, key)

    *events, end = run_bench(bench)
    assert kinds(events, RunDone)[0].record.key == key
    assert (end.trained, end.skipped, end.unreadable) == (2, 0, ())
    kept = pd.read_parquet(end.records).set_index("key")["reason"]
    assert kept[f"{key}-stopped-2"] == "stopped"
    assert (len(kept), kept[key]) == (3, "all_epochs")
    assert count_runs(store, done.record.data.split) == (3, ())


def test_a_bench_that_was_cut_off_goes_on_from_its_checkpoints(cache, monkeypatch):
    bench, store = bench_of(cache, seeds=(0,)), cache.parent / "runs"
    monkeypatch.setattr(runner, "Checkpoints", lambda folder: Checkpoints(folder, seconds=0))
    whole = kinds(run_bench(bench.model_copy(update={"store": str(cache.parent / "other")})), RunDone)[0].record
    for event in run_bench(bench):
        if isinstance(event, RunEpoch) and event.epoch == 2:
            break
    assert len(list(store.glob("checkpoints/*/*.pt"))) == 1
    passes = []
    real = steps._pass
    monkeypatch.setattr(steps, "_pass", lambda stage, epoch, *rest: passes.append(epoch) or real(stage, epoch, *rest))
    (done,) = kinds(run_bench(bench), RunDone)
    assert passes == [2, 3]
    assert (done.record.curve, done.record.evaluations) == (whole.curve, whole.evaluations)
    assert not list(store.glob("checkpoints/*/*.pt"))


def test_class_weights_may_count_the_groups_of_the_table(cache):
    """Two images to a group: half of each count, or a little more where the split parted none."""
    part = table_to_data(read_table(cache), load_or_make_split(cache, read_table(cache), SplitSpec())).train
    weights = {"train.loss.class_weight.kind": "effective", "train.loss.class_weight.beta": 0.9}
    bench = bench_of(cache, seeds=(0,), base=SHORT | weights, toggles={"groups": {"train.loss.count": "groups"}})
    heads = {event.row: load(event.folder / "head").head for event in kinds(run_bench(bench), RunDone)}
    groups = torch.tensor([len(part.groups[part.labels == label].unique()) for label in range(6)])
    for row, counted in (("baseline", heads["baseline"].priors.counts), ("groups", groups)):
        seen = heads[row].priors.raw * EffectiveWeight(beta=0.9)(counted)
        assert torch.allclose(heads[row].priors.effective, seen / seen.sum())


def test_training_never_sees_test_rows(cache):
    table = read_table(cache)
    split = load_or_make_split(cache, table, SplitSpec())
    data = table_to_data(table, split)
    for role, part in (("train", data.train), ("select", data.select), ("calibrate", data.calibrate)):
        chosen = np.flatnonzero(split.roles == role)
        assert part.columns["toy"].dtype == torch.float32
        assert torch.equal(part.columns["toy"], torch.from_numpy(table.columns["toy"][chosen].astype(np.float32)))
        assert part.labels.tolist() == table.labels[chosen].tolist()
    assert len(data.train) + len(data.select) + len(data.calibrate) == 272 - 56
    assert data.class_names == table.class_names


def test_changed_test_vectors_change_nothing_but_the_test_figures(cache, tmp_path, monkeypatch):
    done = kinds(run_bench(bench_of(cache, seeds=(0,))), RunDone)[0].record

    def spoiled(folder, columns=None, verify=False, stored=False):
        table = read_table(folder, columns, verify=verify, stored=stored)
        if stored:
            return table
        vectors = table.columns["toy"].copy()
        vectors[load_or_make_split(cache, table, SplitSpec()).roles == "test"] *= -1
        return replace(table, columns={"toy": vectors})

    monkeypatch.setattr("benchmarks.streaming.read_table", spoiled)
    other = kinds(run_bench(bench_of(cache, seeds=(0,), store=str(tmp_path / "other"))), RunDone)[0].record
    assert other.curve == done.curve
    assert other.evaluations["select"] == done.evaluations["select"]
    assert other.evaluations["test"] != done.evaluations["test"]


def test_the_kept_head_gives_the_kept_figures_and_knows_its_recipe(cache):
    calibrated = SHORT | {"posthoc.calibration.kind": "temperature"}
    event = kinds(run_bench(bench_of(cache, seeds=(0,), base=calibrated)), RunDone)[0]
    head, record = load(event.folder / "head").head, event.record
    table = read_table(cache)
    recipe = table.recipes["toy"]
    head.check_recipes({"toy": recipe.model_dump(mode="json") | {"hash": recipe.hash}})
    with pytest.raises(ValueError, match="model: head 'gaussian', vectors 'other'"):
        head.check_recipes({"toy": {"hash": "other", "model": "other"}})
    roles = load_or_make_split(cache, table, SplitSpec()).roles
    for role in ("select", "test"):
        chosen = roles == role
        log_p = head.log_probabilities({"toy": torch.from_numpy(table.columns["toy"][chosen])})
        labels = torch.from_numpy(table.labels[chosen])
        assert record.evaluations[role].metrics == pytest.approx(all_metrics(log_p, labels, head.priors.counts))
        outcomes = read_outcomes(cache.parent / "runs", record.key, role).set_index("id")
        assert len(outcomes) == chosen.sum()
        row = np.flatnonzero(chosen)[5]
        kept = outcomes.loc[table.ids[row]]
        assert kept["group"] == table.groups[row]
        assert kept["predicted"] == int(log_p[5].argmax())
        assert kept["log_p"] == pytest.approx(float(log_p[5, table.labels[row]]), abs=1e-6)
        assert kept["confidence"] == pytest.approx(float(log_p[5].exp().max()), abs=1e-6)
        assert kept["confidence_raw"] != pytest.approx(kept["confidence"], abs=1e-4)
    assert record.temperature == head.temperature != 1
    assert head.facts["key"] == record.key


def test_background_classes_are_left_out_of_the_foreground(cache):
    event = kinds(run_bench(bench_of(cache, seeds=(0,), background=("ash", "fir"))), RunDone)[0]
    names = event.record.data.class_names
    assert [names[i] for i in event.record.data.background] == ["ash", "fir"]
    assert event.record.evaluations["select"].metrics["n_fg_evaluated"] == 4


def test_the_rows_of_a_bench_are_known_before_and_after_its_run(cache):
    bench, store = bench_of(cache, toggles={"slow": {"train.optim.lr": 0.001}}), cache.parent / "runs"
    (before,) = bench_rows(bench)
    keys = [key for keys in before.rows.values() for key in keys]
    assert (before.cache, list(before.rows), len(set(keys))) == (str(cache), ["baseline", "slow"], 4)
    assert not any(is_finished(store, key) for key in keys)
    done = kinds(run_bench(bench), RunDone)
    assert sorted(event.record.key for event in done) == sorted(keys)
    assert bench_rows(bench) == (before,)
    assert sorted(pd.read_parquet(store / "records.parquet")["key"]) == sorted(keys)


def test_one_damaged_record_does_not_stop_a_bench(cache):
    first = kinds(run_bench(bench_of(cache, seeds=(0,))), RunDone)[0]
    (run_folder(cache.parent / "runs", first.record.key) / "record.json").write_text("{")
    *_, end = run_bench(bench_of(cache, seeds=(1,)))
    assert (end.trained, end.unreadable) == (1, (first.record.key,))
    assert len(pd.read_parquet(end.records)) == 1


def test_an_impossible_row_is_named_before_the_first_epoch(cache, fits):
    bench = bench_of(cache, toggles={"other vectors": {"columns": ["cls"]}})
    with pytest.raises(ValueError, match=r"row 'other vectors': .*\['cls'\] came and the table has \['toy'\]"):
        list(run_bench(bench))
    assert fits == []


def test_the_facts_of_a_run_name_the_classes_that_the_split_treats_apart(cache, monkeypatch):
    def told(folder, table, spec):
        split = load_or_make_split(folder, table, spec)
        known = {"missing": {"test": ("fir",)}, "small": ("elm & oak",), "forced": ("ash",)}
        return replace(split, report=split.report.model_copy(update=known))

    monkeypatch.setattr("benchmarks.streaming.load_or_make_split", told)
    data = kinds(run_bench(bench_of(cache, seeds=(0,))), RunDone)[0].record.data
    assert (data.missing, data.small, data.forced) == ({"test": ("fir",)}, ("elm & oak",), ("ash",))


def test_a_bench_without_caches_is_refused():
    with pytest.raises(SettingsError, match="a bench needs caches"):
        list(run_bench(BenchSpec()))


def keys_of(cache, **fields):
    """Keys of the runs that had to be trained."""
    return [event.record.key for event in kinds(run_bench(bench_of(cache, seeds=(0,), **fields)), RunDone)]


def test_a_new_image_gives_a_new_key(cache, write_cache, tmp_path):
    grown = write_cache(tmp_path / "grown", counts=(121, 60, 40, 24, 16, 12))
    assert keys_of(cache) != keys_of(grown, store=str(tmp_path / "other"))


def test_a_changed_label_gives_a_new_key(cache, write_cache, tmp_path):
    relabelled = write_cache(tmp_path / "relabelled", relabel={0: "beech"})
    assert keys_of(cache) != keys_of(relabelled, store=str(tmp_path / "other"))


def test_the_same_images_in_another_folder_keep_their_key(cache, write_cache, tmp_path, fits):
    copy = write_cache(tmp_path / "copy")
    assert len(keys_of(cache)) == 1
    assert keys_of(copy) == []
    assert fits == [1]


def test_another_split_gives_a_new_key(cache):
    first = keys_of(cache)
    second = keys_of(cache, split=SplitSpec(seed=43))
    assert len(first + second) == len({*first, *second}) == 2


def test_a_raised_engine_version_gives_a_new_key(cache, monkeypatch):
    first = keys_of(cache)
    monkeypatch.setattr("benchmarks.keys.ENGINE_VERSION", ENGINE_VERSION + 1)
    second = keys_of(cache)
    assert len(first + second) == len({*first, *second}) == 2


def test_a_new_option_at_its_default_keeps_the_key():
    class Grown(RunSpec):
        novelty: float = 0.5

    assert run_key(Grown(), "table", "split", 1) == run_key(RunSpec(), "table", "split", 1)
    assert run_key(Grown(novelty=0.6), "table", "split", 1) != run_key(RunSpec(), "table", "split", 1)
