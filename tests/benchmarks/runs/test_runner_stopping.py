"""Benches that fail, are stopped or are killed."""

import pandas as pd
import pytest
from short_benches import bench_of, kinds

import frostbench.benchmarks.runs.train_missing as train_missing
import frostbench.training.engine.stage_loop as steps
from frostbench.benchmarks.runs.all_runs import count_runs, read_records
from frostbench.benchmarks.runs.events import (
    BenchStopped,
    RunDone,
    RunEpoch,
    RunFailed,
)
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import is_finished, run_folder
from frostbench.heads.bundle.export import load
from frostbench.training.engine.checkpoint import Checkpoints
from frostbench.training.engine.events import Failed, Finished


def test_a_run_that_fails_is_told_and_the_others_are_kept(cache):
    bench = bench_of(cache, toggles={"wild": {"train.optim.kind": "sgd"}})
    real = train_missing.fit

    def failing(runs, data, stop, checkpoints, **rest):
        for event in real(runs, data, stop, checkpoints, **rest):
            is_wild = runs[event.run].train.optim.kind == "sgd"
            if not is_wild:
                yield event
            elif isinstance(event, Finished):
                yield Failed(event.run, "it diverged. Lower train.optim.lr.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_missing, "fit", failing)
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
    monkeypatch.setattr(train_missing, "Checkpoints", lambda folder: Checkpoints(folder, seconds=0))
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
