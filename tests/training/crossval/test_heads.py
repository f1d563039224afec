"""The head that is fitted to all rows, and predictions by heads that did not see the row."""

from dataclasses import replace

import pytest
import torch
from crossval_runs import CLASSES, EACH, FOLDS, SHORT, ends, one, parts, run

from frostbench.heads.posthoc.spec import fit_temperature
from frostbench.training.crossval.crossval import CrossValidated, FoldFitted, cross_validate, groups_of
from frostbench.training.crossval.epoch_choice import fixed
from frostbench.training.engine.events import Epoch, Finished, Started
from frostbench.training.engine.fit import fit


def test_a_solved_head_is_that_of_all_rows_and_predictions_are_of_heads_without_the_row(data, folds):
    spec = run(head={"classifier": {"kind": "logreg"}}, posthoc={"calibration": {"kind": "temperature"}})
    end = ends([spec], data, folds)[0]
    plain = run(head={"classifier": {"kind": "logreg"}})
    assert end.predictions.logits.shape == (CLASSES * EACH, CLASSES)
    for fold in range(FOLDS):
        held_out = folds[0] == fold
        wanted = one(plain, parts(data, held_out)).head.logits({"avg": data.train.columns["avg"][held_out]})
        assert torch.allclose(end.predictions.logits[held_out], wanted, atol=1e-6)
        others = fit_temperature(end.predictions.logits[~held_out], data.train.labels[~held_out])
        assert torch.allclose(end.predictions.log_p[held_out], (wanted / others).log_softmax(1), atol=1e-5)
    head = end.finished.head
    everything = replace(data, select=data.train, calibrate=data.train)
    wanted = one(plain, everything).head.logits(data.train.columns)
    assert torch.allclose(head.logits(data.train.columns), wanted, atol=1e-6)
    assert head.temperature == pytest.approx(fit_temperature(end.predictions.logits, data.train.labels))
    assert torch.equal(head.calibration.logits, end.predictions.logits)
    assert head.priors.counts.tolist() == [EACH] * CLASSES
    assert (end.finished.reason, end.finished.epoch) == ("solved", 0)


def test_a_run_yields_its_fits_and_mean_curve(data, folds):
    events = list(cross_validate([run()], data, folds))
    fits = [event for event in events if isinstance(event, FoldFitted)]
    # Six to choose the epoch, three to predict, one to all rows.
    assert [(event.done, event.fits) for event in fits] == [(i + 1, 10) for i in range(10)]
    assert isinstance(events[0], Started)
    assert [event.epoch for event in events if isinstance(event, Epoch)] == list(range(1, 8))
    assert isinstance(events[-1], CrossValidated)


def test_runs_of_one_skeleton_go_together_and_equal_runs_alone(data, folds):
    rates = [run(train=SHORT | {"optim": {"kind": "adamw", "lr": lr}}) for lr in (0.01, 0.03, 0.1)]
    solved = run(head={"classifier": {"kind": "ridge"}})
    found = ends([*rates, solved], data, folds)
    assert [found[i].stack_size for i in range(4)] == [3, 3, 3, 1]
    for index, spec in enumerate(rates):
        alone = ends([spec], data, folds)[0]
        assert alone.finished.epoch == found[index].finished.epoch
        assert torch.allclose(alone.predictions.log_p, found[index].predictions.log_p, atol=1e-4)


def test_seeds_are_evaluated_on_repeats_in_turn(data, folds):
    runs = [run(seed=seed, order_seed=0) for seed in range(4)]
    assert groups_of(runs, data, 2) == [[0, 2], [1, 3]]
    solved = run(head={"classifier": {"kind": "ridge"}}, seed=1)
    end = ends([solved], data, folds)[0]
    held_out = folds[1] == 0
    wanted = one(solved, parts(data, held_out)).head.logits({"avg": data.train.columns["avg"][held_out]})
    assert torch.allclose(end.predictions.logits[held_out], wanted, atol=1e-6)


def test_the_power_of_tau_normalisation_is_chosen_on_held_out_rows(data, folds):
    spec = run(second={"kind": "tau_norm"})
    end = ends([spec], data, folds)[0].finished
    given = [fixed(run(second={"kind": "tau_norm", "tau": k / 10}), [end.epoch]) for k in range(21)]
    heads = [event.head for event in fit(given, replace(data, select=data.train)) if isinstance(event, Finished)]
    assert len(heads) == 21
    logits = end.head.logits(data.train.columns)
    assert any(torch.allclose(logits, head.logits(data.train.columns), atol=1e-5) for head in heads)


def test_a_class_of_one_group_is_learnt_in_the_end_but_not_while_it_is_held_out(data):
    labels = data.train.labels
    folds = torch.arange(len(labels)) % FOLDS
    folds[labels == 3] = 1
    end = ends([run(head={"classifier": {"kind": "ridge"}})], data, folds[None])[0]
    assert (end.predictions.log_p[folds == 1, 3] == -torch.inf).all()
    assert end.predictions.log_p[folds != 1].isfinite().all()
    assert end.finished.head.logits(data.train.columns).isfinite().all()
