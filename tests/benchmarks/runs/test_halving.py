"""Successive halving: which settings each round has, how long it trains, and that it goes on where it was stopped."""

import pytest
from tuned_benches import LR, bench_of, fail, of_kind

from frostbench.benchmarks.runs.events import BenchDone, BenchStopped, RoundStarted, RunDone, RunSkipped
from frostbench.benchmarks.runs.halving import (
    chosen_by_halving,
    first_round,
    last_round,
    next_round,
    planned_rounds,
    run_halving,
)
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import expand

LONG = {"train.schedule.epochs": 9, "train.schedule.min_steps": 20, "train.schedule.batch_size": 32}
RATES = (1e-7, 1e-6, 0.1)


@pytest.fixture
def folder(cache):
    return cache.parent


def searched(folder, **fields):
    return bench_of(folder, **({"base": LONG, "tune": {"plain": {LR: RATES}}} | fields))


def test_each_round_has_a_third_of_the_settings_and_three_times_the_epochs(tmp_path):
    rates = tuple(0.001 * (i + 1) for i in range(10))
    rounds = planned_rounds(searched(tmp_path, tune={"plain": {LR: rates}}), 3)
    assert [(part.number, part.settings, part.epochs, part.is_last) for part in rounds] == [
        (1, 10, 1, False),
        (2, 4, 3, False),
        (3, 2, 9, True),
    ]
    schedules = [expand(part.bench)[0].specs[0].train.schedule for part in rounds]
    assert [(schedule.epochs, schedule.min_steps) for schedule in schedules] == [(1, 3), (3, 7), (9, 20)]


def test_the_last_round_trains_what_the_search_would_train_in_full(tmp_path):
    bench = searched(tmp_path)
    last = planned_rounds(bench, 2)[-1].bench
    assert expand(last)[0].specs == expand(bench)[0].specs


@pytest.mark.parametrize(
    ("fields", "rounds", "words"),
    [
        ({}, 3, "in 3 rounds needs at least 9 settings, got 3"),
        ({}, 1, "at least 2 rounds, got 1 rows, 1 caches and 1 rounds"),
        ({"toggles": {"b": {LR: 0.5}}, "tune": {"plain": {LR: RATES}, "b": {}}}, 2, "one tuned row"),
        ({"base": {"head.classifier.kind": "ridge"}, "tune": {"plain": {"head.classifier.strength": (1, 2, 3)}}}, 2,
         "computed in one step"),
        ({"tune": {"plain": {"train.schedule.epochs": (3, 4, 5)}}}, 2, "sets them too"),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_halved_is_refused(tmp_path, fields, rounds, words):
    with pytest.raises(SettingsError, match=words):
        first_round(searched(tmp_path, **fields), rounds)


@pytest.mark.slow
def test_the_best_settings_by_validation_rows_go_on_and_everything_is_found_again(folder):
    bench = searched(folder)
    events = list(run_halving(bench, 2))
    assert [(event.number, event.settings, event.epochs) for event in of_kind(events, RoundStarted)] == [
        (1, 3, 3),
        (2, 1, 9),
    ]
    (done,) = of_kind(events, BenchDone)
    assert (done.trained, done.skipped) == (8, 0)
    (winner,) = expand(last_round(bench, 2).bench)
    assert winner.changes == {LR: 0.1}
    (tuned,) = chosen_by_halving(bench, 2).tuned.values()
    assert (tuned.winner.changes, len(tuned.tried)) == ({LR: 0.1}, 1)
    assert tuned.edges == ("Learning rate (train.optim.lr) = 0.1 (largest of 3)",)
    (again,) = of_kind(run_halving(bench, 2), BenchDone)
    assert (again.trained, again.skipped) == (0, 8)


@pytest.mark.slow
def test_a_stopped_search_goes_on_with_its_finished_runs(folder):
    bench, ended = searched(folder), []

    def stop():
        return len(ended) >= 4

    for event in run_halving(bench, 2, stop=stop):
        ended += [event] if isinstance(event, RunDone) else []
        assert not isinstance(event, BenchDone)
    assert isinstance(event, BenchStopped)
    events = list(run_halving(bench, 2))
    assert len(of_kind(events, RunSkipped)) >= 4
    assert len(of_kind(events, BenchDone)) == 1


@pytest.mark.slow
def test_settings_that_failed_do_not_go_on(folder, monkeypatch):
    fail(monkeypatch, lambda run: run.train.optim.lr > 0.01)
    bench = searched(folder)
    rounds = of_kind(run_halving(bench, 2), RoundStarted)
    assert [event.settings for event in rounds] == [3, 1]
    (winner,) = expand(last_round(bench, 2).bench)
    assert winner.changes[LR] < 0.01


def test_the_next_round_needs_the_runs_of_the_one_before(folder):
    bench = searched(folder)
    with pytest.raises(StoreError, match="must be in its store"):
        next_round(bench, first_round(bench, 2))
