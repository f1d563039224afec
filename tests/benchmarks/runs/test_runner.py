"""Runs that a bench trains, events that it yields, and records that it stores."""

from dataclasses import replace

import pandas as pd
import pytest
from short_benches import bench_of, kinds

from frostbench.benchmarks.runs.events import (
    BenchDone,
    CacheOpened,
    RowStarted,
    RunDone,
    RunEpoch,
    RunSkipped,
)
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import is_finished, run_folder
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import load_or_make_split


def test_a_second_run_of_a_bench_trains_nothing(cache, fits):
    bench = bench_of(cache, toggles={"calibrated": {"posthoc.calibration.kind": "temperature"}})
    first = list(run_bench(bench))
    assert (fits, len(kinds(first, RunDone))) == ([2, 2], 4)  # a stack for each seed
    second = list(run_bench(bench))
    assert fits == [2, 2]
    assert not kinds(second, RunDone)
    assert {event.key for event in kinds(second, RunSkipped)} == {event.record.key for event in kinds(first, RunDone)}
    assert (second[-1].trained, second[-1].skipped) == (0, 4)


def test_only_what_is_new_is_trained(cache, fits):
    list(run_bench(bench_of(cache)))
    list(run_bench(bench_of(cache, seeds=(0, 1, 2), toggles={"slow": {"train.optim.lr": 0.001}})))
    assert fits == [1, 1, 2, 1, 1]


def test_events_tell_rows_epochs_and_warnings_once(cache):
    events = list(run_bench(bench_of(cache, toggles={"adjusted": {"posthoc.adjustment.tau": 1}})))
    raised = "train.schedule.epochs=4 becomes 334, because min_steps=1000 and 142 rows give 3 steps per epoch"
    few = (
        "the epoch with the lowest NLL on the 44 validation rows is kept: "
        "below 50 rows per class macro F1 is mostly noise"
    )
    short = bench_of(cache, base={"train.schedule.epochs": 4, "train.schedule.batch_size": 64}, seeds=(0,))
    assert next(event for event in run_bench(short) if isinstance(event, RowStarted)).warnings == (raised, few)
    assert isinstance(events[0], CacheOpened)
    assert events[0].rows == {"train": 142, "select": 44, "calibrate": 30, "test": 56}
    rows = kinds(events, RowStarted)
    assert [(row.row, row.number, row.rows, len(row.warnings)) for row in rows] == [
        ("baseline", 1, 2, 1),
        ("adjusted", 2, 2, 3),
    ]
    assert rows[1].warnings[2].startswith("posthoc.adjustment moves no logit relative to another by more than 0.0")
    assert all(events.index(row) < events.index(kinds(events, RunEpoch)[0]) for row in rows)
    assert [(e.row, e.seed, e.epoch, e.epochs) for e in kinds(events, RunEpoch)] == [
        (row, seed, epoch, 3) for seed in (0, 1) for epoch in (1, 2, 3) for row in ("baseline", "adjusted")
    ]
    assert isinstance(events[-1], BenchDone)


def test_corrections_that_cancel_are_told_with_what_is_left(cache):
    weighted = {"train.loss.class_weight.kind": "effective", "train.loss.logit_adjustment.tau": 1}
    weighted |= {"train.loss.smoothing.epsilon": 0}
    events = list(run_bench(bench_of(cache, toggles={"both": weighted}, seeds=(0,))))
    told = {row.row: row.warnings for row in kinds(events, RowStarted)}
    assert not any("moves no logit" in each for each in told["baseline"])
    (note,) = [each for each in told["both"] if "moves no logit" in each]
    assert note.startswith("train.loss.logit_adjustment moves no logit relative to another by more than 0.0")
    assert "because class weights have already evened out the class frequencies" in note


def test_runs_that_were_trained_together_say_so_and_share_their_seconds(cache):
    toggles = {"slow": {"train.optim.lr": 0.001}, "mlp": {"head.body.kind": "mlp", "head.body.hidden": [4]}}
    done = kinds(run_bench(bench_of(cache, seeds=(0,), toggles=toggles)), RunDone)
    assert {event.row: event.record.together for event in done} == {"baseline": 2, "slow": 2, "mlp": 1}
    first, second = (event.record.seconds for event in done[:2])
    assert first == pytest.approx(second, abs=0.5)


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
    with pytest.raises(ValueError, match=r"row 'other vectors': .*got \['cls'\], but the table has \['toy'\]"):
        list(run_bench(bench))
    assert fits == []


def test_the_facts_of_a_run_name_the_classes_that_the_split_treats_apart(cache, monkeypatch):
    def told(folder, table, spec, store):
        split = load_or_make_split(folder, table, spec, store)
        known = {"missing": {"test": ("fir",)}, "small": ("elm & oak",), "forced": ("ash",)}
        return replace(split, report=split.report.model_copy(update=known))

    monkeypatch.setattr("frostbench.benchmarks.runs.streaming.load_or_make_split", told)
    data = kinds(run_bench(bench_of(cache, seeds=(0,))), RunDone)[0].record.data
    assert (data.missing, data.small, data.forced) == ({"test": ("fir",)}, ("elm & oak",), ("ash",))


def test_a_bench_without_caches_is_refused():
    with pytest.raises(SettingsError, match="A bench needs at least one cache"):
        list(run_bench(BenchSpec()))
