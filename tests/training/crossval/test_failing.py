"""Runs that are stopped, fail or cannot be cross-validated."""

import pytest
import torch
from crossval_runs import SHORT, run

from frostbench.heads.spec import with_numbers
from frostbench.training.crossval.crossval import CrossValidated, FoldFitted, check_runs, cross_validate
from frostbench.training.crossval.epoch_choice import choose_epoch
from frostbench.training.engine.events import Failed


def test_a_stopped_group_gives_nothing_and_finished_ones_stay(data, folds):
    solved, stepped = run(head={"classifier": {"kind": "ridge"}}), run()
    events = []

    def stop():
        return any(isinstance(event, CrossValidated) for event in events)

    for event in cross_validate([solved, stepped], data, folds, stop):
        events.append(event)
    assert [event.run for event in events if isinstance(event, CrossValidated)] == [0]
    stops = iter([False] * 12)
    cut = list(cross_validate([stepped], data, folds, lambda: next(stops, True)))
    assert 0 < len([event for event in cut if isinstance(event, FoldFitted)]) < 6
    assert not [event for event in cut if isinstance(event, CrossValidated | Failed)]


def test_a_run_that_fails_in_a_fold_leaves_the_others_alone(data, folds):
    calm = run(train=SHORT | {"optim": {"kind": "sgd", "lr": 0.05}})
    steep = with_numbers(calm, {"train.optim.lr": 1e39})
    events = list(cross_validate([steep, calm], data, folds))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.run == 0
    assert failed.message.startswith("fold 1 of repeat 1: the training loss must stay finite")
    assert [(event.run, event.stack_size) for event in events if isinstance(event, CrossValidated)] == [(1, 2)]


def test_what_cannot_be_cross_validated_is_refused(data, folds):
    with pytest.raises(ValueError, match=r"Folds must be .* of the 24 training rows, .* got shape \[2, 23\]"):
        list(cross_validate([run()], data, folds[:, 1:]))
    with pytest.raises(ValueError, match="at least two folds in each repeat"):
        list(cross_validate([run()], data, torch.zeros(1, 24, dtype=torch.int64)))
    with pytest.raises(ValueError, match="columns"):
        check_runs([run(columns=["cls"])], data)


def test_a_run_without_an_epoch_to_choose_leaves_the_second_stage_of_others_alone(data, folds, monkeypatch):
    calls = []

    def chosen(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise ValueError("no epoch can be chosen")
        return choose_epoch(*arguments)

    monkeypatch.setattr("frostbench.training.crossval.fold_fits.choose_epoch", chosen)
    second = {"kind": "crt", "epochs": 3, "lr": 0.05}
    runs = [run(second=second, train=SHORT | {"optim": {"kind": "sgd", "lr": lr}}) for lr in (0.05, 0.02)]
    events = list(cross_validate(runs, data, folds))
    assert [(event.run, event.message) for event in events if isinstance(event, Failed)] == [
        (0, "no epoch can be chosen")
    ]
    assert [event.run for event in events if isinstance(event, CrossValidated)] == [1]
