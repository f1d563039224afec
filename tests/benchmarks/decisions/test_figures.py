"""Figures of answers, computed by hand and by the metrics of training."""

import numpy as np
import pytest
import torch

from frostbench.benchmarks.decisions.figures import by_class, figures, most_changed
from frostbench.benchmarks.decisions.head_numbers import HeadNumbers
from frostbench.benchmarks.decisions.live import Answers
from frostbench.heads.posthoc.decisions.rule import Cost, DecisionRule
from frostbench.training.metrics.classification import all_metrics

NAMES = ("a", "b", "c")


def head(background=()):
    kinds = {"calibration": "none", "thresholds": "none", "shift": "none", "temperature": 1.0}
    counts, prior = np.array([5, 5, 5]), np.full(3, 1 / 3)
    return HeadNumbers(NAMES, background, counts, prior, **kinds, bias=None, logits=None, labels=None)


LABELS = np.array([0, 0, 1, 1, 2])
PREDICTED = np.array([0, 1, 1, 1, 0])
CONFIDENCE = np.array([0.9, 0.6, 0.8, 0.3, 0.7])
LOG_OWN = np.log(np.array([0.9, 0.3, 0.8, 0.3, 0.1]))


def said(unsure=(False,) * 5):
    return Answers(PREDICTED, CONFIDENCE, np.array(unsure), LOG_OWN)


def test_everything_answered():
    found = figures(said(), LABELS, head(), DecisionRule())
    # F1: a 2·1/(2+2), b 2·2/(2+3), c 0.
    assert found["macro_f1_fg"] == pytest.approx((0.5 + 0.8 + 0) / 3)
    assert (found["accuracy"], found["coverage"], found["risk"], found["cost"]) == pytest.approx((0.6, 1.0, 0.4, 0.4))
    assert found["nll"] == pytest.approx(-LOG_OWN.mean())
    # Bins of 1/15: each of the five confidences is alone in its bin.
    gaps = np.abs(CONFIDENCE - (PREDICTED == LABELS))
    assert found["ece"] == pytest.approx(gaps.mean())


def test_an_abstention_is_a_miss_for_f1_and_leaves_the_probabilities_alone():
    rule = DecisionRule(costs=(Cost(label="c", predicted="a", cost=5),), abstain_below=0.65)
    found = figures(said(CONFIDENCE < 0.65), LABELS, head(), rule)
    whole = figures(said(), LABELS, head(), rule)
    assert (found["nll"], found["ece"]) == (whole["nll"], whole["ece"])
    assert (found["coverage"], found["accuracy"]) == pytest.approx((0.6, 0.4))
    assert found["risk"] == pytest.approx(1 / 3)
    assert found["cost"] == pytest.approx(5 / 3)
    assert whole["cost"] == pytest.approx((1 + 5) / 5)
    # a: right 1 of 2, said twice; b: right 1 of 2, said once.
    assert found["macro_f1_fg"] == pytest.approx((0.5 + 2 / 3 + 0) / 3)


def test_nothing_answered_has_no_risk():
    found = figures(said((True,) * 5), LABELS, head(), DecisionRule(abstain_below=1.0))
    assert (found["coverage"], found["accuracy"], found["risk"], found["cost"]) == (0, 0, None, None)


def test_no_images_are_refused():
    none = Answers(np.zeros(0, int), np.zeros(0), np.zeros(0, bool), np.zeros(0))
    with pytest.raises(ValueError, match="need at least one image"):
        figures(none, np.zeros(0, int), head(), DecisionRule())


def test_figures_are_those_of_the_metrics():
    generator = np.random.default_rng(5)
    p = generator.dirichlet([0.4, 0.5, 0.6], 400)
    labels = np.array([generator.choice(3, p=row) for row in p])
    log_p = torch.from_numpy(p).log()
    predicted = p.argmax(1)
    answers = Answers(predicted, p.max(1), np.zeros(400, bool), np.log(p[np.arange(400), labels]))
    found = figures(answers, labels, head(background=(1,)), DecisionRule())
    wanted = all_metrics(log_p, torch.from_numpy(labels), torch.tensor([5, 5, 5]), (1,))
    for name in ("macro_f1_fg", "accuracy", "nll", "ece"):
        assert found[name] == pytest.approx(wanted[name])


def test_classes_have_coverage_and_risk():
    found = by_class(said(CONFIDENCE < 0.65), LABELS, 3)
    assert found["coverage"].tolist() == [0.5, 0.5, 1.0]
    assert found["risk"].tolist() == [0, 0, 1]
    assert np.isnan(by_class(said((True,) * 5), LABELS, 3)["risk"]).all()


def test_the_classes_that_change_most_come_first():
    found = most_changed(said(), said((False, False, False, True, False)), LABELS, NAMES, 5)
    assert [one["name"] for one in found] == ["b"]
    assert (found[0]["f1_before"], found[0]["f1_after"]) == pytest.approx((0.8, 0.5))
    assert (found[0]["images"], found[0]["coverage"], found[0]["risk"]) == (2, 0.5, 0.0)
