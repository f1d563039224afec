"""The epoch that is chosen from the mean curve of the folds."""

from dataclasses import replace

import pytest
import torch
from crossval_runs import FOLDS, SHORT, one, parts, run

from frostbench.training.crossval.crossval import cross_validate
from frostbench.training.crossval.epoch_choice import best_epoch, choose_epoch, fixed, mean_curve, means_of, paced
from frostbench.training.engine.events import Epoch
from frostbench.training.engine.fit import fit


@pytest.mark.parametrize(
    ("values", "rows", "wanted"),
    [
        ([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [1, 1], 3),
        ([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [3, 1], 2),
        ([[0.5, 0.5], [0.5, 0.5]], [2, 1], 1),
        ([[None, 0.2, 0.4], [0.9, 0.2, 0.2]], [100, 1], 1),
        ([[0.1, 0.2], [0.1, 0.2, 0.9]], [1, 1], 2),
        ([[-3.0, -1.0, -2.0]], [5], 2),
    ],
)
def test_the_best_epoch_has_the_highest_mean_weighted_by_rows(values, rows, wanted):
    level = [[1.0] * len(each) for each in values]
    assert best_epoch(values, level, rows) == wanted


@pytest.mark.parametrize(
    ("nlls", "wanted"), [([3.0, 2.0, 0.1], 2), ([2.0, 3.0, 0.1], 1), ([None, 9.0, 0.1], 2), ([2.0, 2.0, 0.1], 1)]
)
def test_of_equal_epochs_the_one_of_lowest_nll_is_taken(nlls, wanted):
    """In floating point, .1 + .2 + .3 differs from .3 + .2 + .1."""
    values = [[0.1, 0.3, 0.0], [0.2, 0.2, 0.0], [0.3, 0.1, 0.0]]
    assert len({sum(each) for each in zip(*values, strict=True)}) == 3
    assert best_epoch(values, [nlls] * 3, [1, 1, 1]) == wanted


def test_means_leave_out_folds_without_a_value():
    assert means_of([[1.0, None], [4.0, None]], [1, 2]) == [3.0, None]
    with pytest.raises(ValueError, match="no fold has a class that it counts"):
        best_epoch([[None], [None]], [[1.0], [1.0]], [1, 1])


def curve(*values):
    metrics = [{"accuracy": value, "nll": 1.0} for value in values]
    return [Epoch(0, i, loss=10.0 * i, metrics=each, best_epoch=0) for i, each in enumerate(metrics, start=1)]


def test_the_epoch_of_a_fold_is_chosen_by_the_others_of_its_repeat():
    # Two repeats of two folds; the second repeat is evaluated.
    curves = [curve(0.0, 0.0, 0.9), curve(0.0, 0.0, 0.9), curve(0.9, 0.1, 0.2), curve(0.1, 0.8, 0.2)]
    spec = run(train=SHORT | {"early_stop": {"metric": "accuracy"}})
    kept = choose_epoch(spec, 0, "accuracy", curves, [1, 1, 1, 1], {0: 2, 1: 3})
    # Means of all four: 0.25, 0.225, 0.55.
    assert (kept.final, kept.without) == (3, {0: 2, 1: 1})
    mean = mean_curve(7, curves, [1, 1, 1, 1], 20, "accuracy")
    assert [(e.run, e.epoch, e.loss, e.best_epoch) for e in mean] == [(7, 21, 10, 21), (7, 22, 20, 21), (7, 23, 30, 23)]
    assert [e.metrics["accuracy"] for e in mean] == pytest.approx([0.25, 0.225, 0.55])
    spec = run(train=SHORT | {"early_stop": {"metric": "accuracy", "epoch": 2}})
    assert choose_epoch(spec, 0, "accuracy", curves, [1, 1, 1, 1], {0: 2, 1: 3}).without == {0: 2, 1: 2}
    spec = run(train=SHORT | {"early_stop": {"metric": "last"}})
    assert choose_epoch(spec, 0, "last", curves, [1, 1, 1, 1], {0: 2, 1: 3}).final == 3


def test_a_stepped_head_keeps_the_epoch_of_the_mean_and_is_fitted_to_all_rows(data, folds):
    spec = run(train=SHORT | {"early_stop": {"metric": "nll", "patience": 1}})
    events = list(cross_validate([spec], data, folds))
    end = events[-1]
    # The same by hand: NLL of every fold and epoch, without early stopping.
    to_the_end = run(train=SHORT | {"early_stop": {"metric": "last"}})
    nll = {}
    for repeat in range(2):
        for fold in range(FOLDS):
            fold_events = list(fit([to_the_end], parts(data, folds[repeat] == fold)))
            nll[repeat, fold] = [event.metrics["nll"] for event in fold_events if isinstance(event, Epoch)]
    means = torch.tensor(list(nll.values())).mean(0)
    best = int(means.argmin()) + 1
    assert best > 1
    epochs = [event for event in events if isinstance(event, Epoch)]
    assert [event.metrics["nll"] for event in epochs] == pytest.approx(means.tolist(), abs=1e-6)
    assert (end.finished.epoch, end.finished.reason, epochs[-1].best_epoch) == (best, "given_epoch", best)
    all_rows = run(train=SHORT | {"early_stop": {"epoch": best}})
    wanted = one(all_rows, replace(data, select=data.train)).head.logits(data.train.columns)
    assert torch.allclose(end.finished.head.logits(data.train.columns), wanted, atol=1e-5)
    for fold in range(FOLDS):
        others = torch.tensor([nll[0, other] for other in range(FOLDS) if other != fold]).mean(0)
        spec = run(train=SHORT | {"early_stop": {"epoch": int(others.argmin()) + 1}})
        held_out = folds[0] == fold
        x = {"avg": data.train.columns["avg"][held_out]}
        logits = one(spec, parts(data, held_out)).head.logits(x)
        assert torch.allclose(end.predictions.logits[held_out], logits, atol=1e-5)
        assert not torch.allclose(end.finished.head.logits(x), logits, atol=0.01)


def test_every_fit_takes_the_epochs_of_all_rows():
    spec = run(train={"schedule": {"epochs": 2, "min_steps": 60, "batch_size": 8}}, second={"kind": "crt", "epochs": 3})
    wide = paced(spec, 24)
    assert wide.train.schedule.epochs_for(16) == wide.train.schedule.epochs_for(24) == 20
    assert wide.epochs_for(16) == 40


@pytest.mark.parametrize(
    ("second", "epochs"),
    [({"kind": "crt", "epochs": 5, "lr": 0.05}, 5), ({"kind": "lws", "epochs": 4}, 4)],
)
def test_a_second_stage_gets_its_own_epoch(data, folds, second, epochs):
    spec = run(second=second, train=SHORT | {"early_stop": {"metric": "nll"}})
    events = list(cross_validate([spec], data, folds))
    epochs_seen = [event for event in events if isinstance(event, Epoch)]
    assert [event.epoch for event in epochs_seen] == list(range(1, 7 + epochs + 1))
    first = min(epochs_seen[:7], key=lambda event: event.metrics["nll"]).epoch
    later = min(epochs_seen[7:], key=lambda event: event.metrics["nll"]).epoch
    end = events[-1].finished
    assert end.epoch == later
    fixed_run = fixed(spec, [first, later - 7])
    assert (fixed_run.train.early_stop.epoch, fixed_run.second.epoch) == (first, later - 7)
    wanted = one(fixed_run, replace(data, select=data.train)).head.logits(data.train.columns)
    assert torch.allclose(end.head.logits(data.train.columns), wanted, atol=1e-5)


def test_the_best_epoch_of_a_second_stage_is_reported_by_its_own_metric(data, folds):
    spec = run(second={"kind": "crt", "epochs": 5, "lr": 0.5, "metric": "nll"})
    events = list(cross_validate([spec], data, folds))
    later = [event for event in events if isinstance(event, Epoch)][7:]
    lowest = [min(later[: index + 1], key=lambda event: event.metrics["nll"]).epoch for index in range(5)]
    highest = [max(later[: index + 1], key=lambda event: event.metrics["macro_f1_fg"]).epoch for index in range(5)]
    assert [event.best_epoch for event in later] == lowest != highest
    assert events[-1].finished.epoch == lowest[-1]
