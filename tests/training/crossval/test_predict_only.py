"""Out-of-fold predictions without a choice of epochs and without a final fit."""

import pytest
import torch
from crossval_runs import CLASSES, EACH, FOLDS, SHORT, ends, one, parts, run

from frostbench.training.crossval.crossval import FoldFitted, predict_out_of_fold
from frostbench.training.engine.events import Epoch, Failed


def predicted(runs, data, folds):
    return dict(event for event in predict_out_of_fold(runs, data, folds) if isinstance(event, tuple))


def test_heads_are_trained_to_the_end_of_the_schedule_without_the_row(data, folds):
    spec = run()
    found = predicted([spec], data, folds)[0]
    last = run(train=SHORT | {"early_stop": {"metric": "last"}}, posthoc={"calibration": {"kind": "none"}})
    assert found.logits.shape == (CLASSES * EACH, CLASSES)
    for fold in range(FOLDS):
        held_out = folds[0] == fold
        wanted = one(last, parts(data, held_out)).head.logits({"avg": data.train.columns["avg"][held_out]})
        assert torch.allclose(found.logits[held_out], wanted, atol=1e-6)


def test_early_stopping_on_held_out_rows_is_left_out_and_a_stated_epoch_is_kept(data, folds):
    patient = run(train=SHORT | {"early_stop": {"metric": "nll", "patience": 1}})
    second = run(train=SHORT | {"early_stop": {"epoch": 2}})
    found = predicted([run(), patient, second], data, folds)
    assert torch.equal(found[0].logits, found[1].logits)
    assert not torch.allclose(found[0].logits, found[2].logits, atol=1e-3)


def test_solved_heads_predict_as_in_a_whole_cross_validation(data, folds):
    spec = run(head={"classifier": {"kind": "ridge"}}, posthoc={"calibration": {"kind": "temperature"}})
    whole = ends([spec], data, folds)[0].predictions
    found = predicted([spec], data, folds)[0]
    assert torch.equal(found.log_p, whole.log_p)
    assert torch.equal(found.predicted, whole.predicted)


def test_there_is_one_fit_per_fold_of_the_first_repeat(data, folds):
    events = [event for event in predict_out_of_fold([run()], data, folds) if not isinstance(event, tuple)]
    assert [(e.done, e.fits) for e in events if isinstance(e, FoldFitted)] == [(i + 1, FOLDS) for i in range(FOLDS)]
    assert not [event for event in events if isinstance(event, Epoch | Failed)]


def test_a_stop_ends_without_predictions(data, folds):
    assert list(predict_out_of_fold([run()], data, folds, lambda: True)) == []


def test_a_second_stage_with_steps_is_refused(data, folds):
    with pytest.raises(ValueError, match="A second stage that takes steps needs its epochs chosen"):
        next(predict_out_of_fold([run(second={"kind": "crt"})], data, folds))
