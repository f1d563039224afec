"""Ensembles that fail, are stopped or are invalid."""

import pytest
from averaged_benches import ENSEMBLES, bench_of, kinds

from frostbench.benchmarks.runs.events import BenchStopped, RowStarted, RunDone, RunFailed
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import expand
from frostbench.training.engine.events import Failed, Finished


def test_an_ensemble_whose_member_failed_is_skipped_and_tried_again(cache, monkeypatch):
    import frostbench.benchmarks.runs.train_missing as train_missing

    bench, real = bench_of(cache, seeds=(0,)), train_missing.fit

    def failing(runs, data, stop, checkpoints, **rest):
        for event in real(runs, data, stop, checkpoints, **rest):
            is_ncm = runs[event.run].head.classifier.kind == "ncm"
            yield Failed(event.run, "it diverged.") if is_ncm and isinstance(event, Finished) else event

    monkeypatch.setattr(train_missing, "fit", failing)
    *events, end = run_bench(bench)
    told = {event.row: event.message for event in kinds(events, RunFailed)}
    assert told["all"].startswith("The members of an ensemble must be finished runs, but those of ['ncm'] are")
    assert set(told) == {"ncm", "all"}
    assert {event.row for event in end.failed} == {"ncm", "all"}
    monkeypatch.undo()
    again = list(run_bench(bench))
    assert {event.row for event in kinds(again, RunDone)} == {"ncm", "all"}


def test_a_stopped_bench_does_not_tell_of_ensembles(cache):
    events = list(run_bench(bench_of(cache), stop=lambda: True))
    assert isinstance(events[-1], BenchStopped)
    assert not kinds(events, RunFailed)
    assert not any(event.row in ENSEMBLES for event in kinds(events, RowStarted))


def test_members_of_other_background_classes_are_no_ensemble(cache):
    toggles = {"other": {"background": ["fir"], "train.optim.lr": 0.01}}
    bench = bench_of(cache, toggles=toggles, ensembles={"both": ("plain", "other")}, seeds=(0,))
    (failed,) = kinds(run_bench(bench), RunFailed)
    assert "different runs with the same background classes, but those of rows ['plain', 'other']" in failed.message


def test_rows_whose_winners_are_one_run_are_no_ensemble(cache):
    tune = {"plain": {"train.optim.lr": (0.0001, 0.05)}, "other": {"train.optim.lr": (0.0002, 0.05)}}
    toggles = {"other": {"train.optim.weight_decay": 0.01, "train.ema": 0.0, "train.optim.lr": 0.3}}
    bench = bench_of(cache, tune=tune, toggles=toggles, ensembles={"both": ("plain", "other")}, seeds=(0,))
    (failed,) = kinds(run_bench(bench), RunFailed)
    assert (failed.row, failed.seed) == ("both", 0)
    assert "members of an ensemble must be different runs" in failed.message
    with pytest.raises(StoreError, match="Run the bench first"):
        export_row(bench, "both", cache.parent / "out")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"both": ("plain", "logregg")}, r"must be rows .* \['plain', 'logreg', 'ncm'\], but 'both' has \['logregg'\]"),
        ({"both": ("plain", "plain")}, "The members of an ensemble must differ"),
        ({"ncm": ("plain", "logreg")}, "'ncm' is a row"),
        ({"one": ("plain", "ncm"), "two": ("ncm", "plain")}, "'two' has the same members as 'one'"),
        ({"one": ("plain", "logreg"), "two": ("one", "plain")}, r"'two' has \['one'\]"),
    ],
)
def test_ensembles_that_are_not_possible_are_refused(cache, asked, told):
    with pytest.raises(SettingsError, match=told):
        expand(bench_of(cache, ensembles=asked))


def test_an_ensemble_of_one_row_is_refused(cache):
    with pytest.raises(ValueError, match="at least 2 items"):
        bench_of(cache, ensembles={"both": ("plain",)})


def test_a_cross_validated_bench_has_no_ensembles(cache):
    with pytest.raises(SettingsError, match="whose stored heads are fitted to all rows"):
        list(run_bench(bench_of(cache, split={"folds": 3, "test": 0})))
