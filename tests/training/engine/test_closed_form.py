"""Closed-form classifiers."""

import pytest
import torch
from catalogue import data
from sklearn.linear_model import LogisticRegression

from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

ROWS = data()


def ends(*runs):
    found = {event.run: event for event in fit(runs, ROWS) if isinstance(event, Finished)}
    return [found[index] for index in range(len(runs))]


def test_several_strengths_are_solved_as_each_alone():
    cs = (0.01, 1.0, 100.0)
    # With a weak penalty, a gradient of 1e-6 leaves the probabilities less exact than rounding would.
    solved = {"kind": "logreg", "tolerance": 1e-9}
    runs = [RunSpec.model_validate({"head": {"classifier": solved | {"c": c}}}) for c in cs]
    for stacked, spec in zip(ends(*runs), runs, strict=True):
        (alone,) = ends(spec)
        assert stacked.gradient_norm <= 1e-9
        found, wanted = (e.head.logits(ROWS.select.columns).log_softmax(1)[:, :4] for e in (stacked, alone))
        assert (found - wanted).abs().max() < 1e-3


def test_a_solver_that_does_not_converge_reports_it():
    (end,) = ends(RunSpec.model_validate({"head": {"classifier": {"kind": "logreg", "max_iterations": 1}}}))
    assert end.reason == "not_converged"
    assert end.gradient_norm > 1e-6


def fitted(tree, rows):
    return [event for event in fit([RunSpec.model_validate(tree)], rows) if isinstance(event, Finished)]


def test_logistic_regression_equals_scikit_learn(long_tail):
    tree = {
        "head": {"classifier": {"kind": "logreg", "c": 0.5}, "preprocess": {"center": True, "std": True}},
    }
    (end,) = fitted(tree, long_tail)
    x = long_tail.train.columns["avg"].double()
    mean, std = x.mean(0), x.std(0, correction=0)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(
        ((x - mean) / std).numpy(), long_tail.train.labels
    )
    select = ((long_tail.select.columns["avg"] - mean) / std).numpy()
    ours = end.head.logits(long_tail.select.columns).softmax(1).numpy()
    assert ours == pytest.approx(theirs.predict_proba(select), abs=1e-4)
    assert (end.reason, end.epoch) == ("solved", 0)
    assert end.gradient_norm <= 1e-6


def test_logistic_regression_with_weights_equals_scikit_learn_with_class_weights(long_tail):
    tree = {"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": {"class_weight": {"kind": "inverse"}}}}
    (end,) = fitted(tree, long_tail)
    labels = long_tail.train.labels
    counts = torch.bincount(labels).double()
    weight = (1 / counts)[labels]
    weight = weight * len(labels) / weight.sum()
    x, unit = long_tail.train.columns["avg"].double(), end.head.head.preprocess.unit.double()
    assert unit.tolist() == pytest.approx([x.var(0, correction=0).sum().sqrt().item() / (2 * 8**0.5)] * 8)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit((x / unit).numpy(), labels, sample_weight=weight)
    ours = end.head.logits(long_tail.select.columns).softmax(1).numpy()
    x_select = (long_tail.select.columns["avg"].double() / unit).numpy()
    assert ours == pytest.approx(theirs.predict_proba(x_select), abs=1e-4)
