"""Tuning and calibration on the out-of-fold predictions of all folds."""

import pytest
import torch
from crossval_runs import SHORT, run

from frostbench.training.crossval.out_of_fold import OutOfFold, choose_out_of_fold
from frostbench.training.metrics.classification import all_metrics


def crafted(logits, folds, labels, log_prior=None):
    logits = torch.tensor(logits)
    prior = torch.zeros_like(logits) if log_prior is None else torch.tensor(log_prior).expand(len(logits), -1)
    labels = torch.tensor(labels)
    return OutOfFold(logits[None], prior, labels, torch.tensor(folds), torch.bincount(labels), ())


def test_the_strength_is_tuned_on_the_rows_of_other_folds():
    # The rare class 1 is missed unless 0.5 * (log 0.9 - log 0.1) = 1.1 or more is subtracted.
    prior = [[-0.1053605, -2.3025851]]
    rows = crafted([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [3.0, 0.0]], [0, 0, 1, 1], [1, 0, 0, 0], prior)
    spec = run(posthoc={"adjustment": {"rule": "tuned"}}, train=SHORT | {"early_stop": {"metric": "accuracy"}})
    found = choose_out_of_fold(spec, rows)
    assert found.adjustment_strength == pytest.approx(0.5)
    # Fold 0 is evaluated with the strength of fold 1, which needs none. Fold 1 uses that of fold 0, whose rows are
    # right from 0.5 to 0.9, with the lowest NLL at 0.7.
    assert found.predictions.logits[0].tolist() == [1.0, 0.0]
    assert found.predictions.logits[2].tolist() == pytest.approx([3 + 0.7 * 0.1053605, 0.7 * 2.3025851])
    metrics = all_metrics(found.predictions.log_p, rows.labels, rows.counts)
    assert metrics["accuracy"] == 0.75


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_labels_of_a_fold_do_not_affect_its_own_predictions(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(90, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    folds, prior = torch.arange(90) % 3, [[-0.3567, -1.6094, -2.3026]]
    other = torch.where(folds == 0, (labels + 1) % 3, labels)
    both = {"adjustment": {"rule": "tuned"}, "calibration": {"kind": "temperature"}}
    spec = run(posthoc=both, train=SHORT | {"early_stop": {"metric": "accuracy"}})
    before, after = (
        choose_out_of_fold(spec, crafted(logits.tolist(), folds.tolist(), each.tolist(), prior)).predictions
        for each in (labels, other)
    )
    assert torch.equal(before.log_p[folds == 0], after.log_p[folds == 0])
    assert not torch.equal(before.log_p[folds != 0], after.log_p[folds != 0])


def test_rows_of_classes_unknown_to_their_fold_are_not_used_for_calibration():
    inf = float("inf")
    rows = crafted([[2.0, -inf], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 0, 1, 1], [1, 0, 1, 1])
    found = choose_out_of_fold(run(posthoc={"calibration": {"kind": "temperature"}}), rows)
    assert len(found.calibration.labels) == 3
    assert found.predictions.log_p[0].tolist() == [0.0, -inf]
    unknown = crafted([[2.0, -inf], [1.0, -inf]], [0, 1], [1, 1])
    with pytest.raises(ValueError, match="held-out rows whose class also has training rows"):
        choose_out_of_fold(run(posthoc={"calibration": {"kind": "temperature"}}), unknown)
