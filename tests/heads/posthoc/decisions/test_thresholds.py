import itertools
import math

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score

from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent
from frostbench.heads.posthoc.pipeline import Layers


def rare(rows=400, seed=0):
    """Log-probabilities with which the rare class 2 is hardly ever the most probable."""
    generator = torch.Generator().manual_seed(seed)
    prior = torch.tensor([0.6, 0.32, 0.08], dtype=torch.float64).log()
    scores = prior + torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(scores.softmax(1), 1, generator=generator).squeeze(1)
    return scores.log_softmax(1), labels


def one(labels):
    return torch.ones(len(labels), dtype=torch.float64)


def value(metric, log_p, log_t, labels):
    predicted = (log_p - log_t).argmax(1)
    if metric == "balanced_accuracy":
        return balanced_accuracy_score(labels, predicted)
    if metric == "accuracy":
        return float((labels == predicted).double().mean())
    counted = [0, 1, 2] if metric == "macro_f1" else [0, 2]
    return f1_score(labels, predicted, labels=counted, average="macro", zero_division=0)


def test_the_decision_by_hand():
    """p = .5, .3, .2 over t = .6, .2, .3 is .83, 1.5, .67."""
    bias = -torch.tensor([0.6, 0.2, 0.3], dtype=torch.float64).log()
    assert Layers(bias=bias).decide(torch.tensor([[0.5, 0.3, 0.2]]).log()).tolist() == [1]
    assert Layers().decide(torch.tensor([[0.5, 0.3, 0.2]]).log()).tolist() == [0]


@pytest.mark.parametrize("metric", ["macro_f1_fg", "macro_f1", "balanced_accuracy", "accuracy"])
def test_one_pass_finds_the_best_of_each_class_in_turn(metric):
    """Frequent classes come first; each is tried at 41 points while the others are fixed, scored by scikit-learn."""
    log_p, labels = rare()
    grid = [(k - 20) * 2 * math.log(10) / 40 for k in range(41)]
    wanted = torch.zeros(3, dtype=torch.float64)
    for own in torch.bincount(labels).argsort(descending=True).tolist():
        best, at = value(metric, log_p, wanted, labels), float(wanted[own])
        for point in sorted(grid, key=abs):
            tried = wanted.clone()
            tried[own] = point
            if value(metric, log_p, tried, labels) > best + 1e-12:
                best, at = value(metric, log_p, tried, labels), point
        wanted[own] = at
    found = CoordinateAscent(metric=metric, passes=1, shrink=0).fit(log_p, labels, one(labels), [1])
    assert value(metric, log_p, found, labels) == pytest.approx(value(metric, log_p, wanted, labels), abs=1e-12)
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-9)


def test_it_raises_the_metric_and_more_passes_never_lower_it():
    log_p, labels = rare()
    values = []
    for passes in (1, 2, 3, 10):
        found = CoordinateAscent(metric="macro_f1", passes=passes, shrink=0).fit(log_p, labels, one(labels))
        values.append(value("macro_f1", log_p, found, labels))
    assert values == sorted(values)
    assert values[0] > value("macro_f1", log_p, torch.zeros(3), labels) + 0.02


def test_few_rows_shrink_the_threshold():
    log_p, labels = rare()
    whole = CoordinateAscent(shrink=0).fit(log_p, labels, one(labels))
    counts = torch.bincount(labels).double()
    shrunk = CoordinateAscent().fit(log_p, labels, one(labels))
    assert torch.allclose(shrunk, whole * counts / (counts + 20), atol=1e-12)
    assert CoordinateAscent(shrink=1e6).fit(log_p, labels, one(labels)).abs().max() < 1e-3


def test_weights_act_like_repeated_rows():
    log_p, labels = rare(200)
    times = torch.arange(200) % 3
    spec = CoordinateAscent(shrink=0)
    repeated = spec.fit(
        log_p.repeat_interleave(times, 0), labels.repeat_interleave(times), one(range(int(times.sum())))
    )
    kept = times > 0
    assert torch.allclose(spec.fit(log_p[kept], labels[kept], times[kept].double()), repeated, atol=1e-12)


def test_the_order_of_rows_does_not_matter():
    log_p, labels = rare()
    order = torch.randperm(400, generator=torch.Generator().manual_seed(3))
    spec = CoordinateAscent()
    assert torch.equal(spec.fit(log_p, labels, one(labels)), spec.fit(log_p[order], labels[order], one(labels)))


def test_classes_without_rows_or_without_probability_keep_threshold_one():
    log_p, labels = rare()
    wider = torch.cat([log_p, torch.full((400, 1), -torch.inf), torch.full((400, 1), -9.0)], 1)
    found = CoordinateAscent().fit(wider, labels, one(labels))
    assert found[3:].tolist() == [0, 0]
    assert (Layers(bias=-found).decide(wider) != 3).all()
    assert torch.allclose(found[:3], CoordinateAscent().fit(log_p, labels, one(labels)))


def test_every_corner_of_a_small_case():
    """Compare with all pairs of thresholds: with two classes only their ratio matters, so one pass is optimal."""
    log_p, labels = rare(60)
    two = log_p[:, :2].log_softmax(1)
    kept = labels < 2
    two, labels = two[kept], labels[kept]
    found = CoordinateAscent(metric="accuracy", shrink=0).fit(two, labels, one(labels))
    grid = [(k - 20) * 2 * math.log(10) / 40 for k in range(41)]
    best = max(value("accuracy", two, torch.tensor(pair), labels) for pair in itertools.product(grid, [0.0]))
    assert value("accuracy", two, found, labels) >= best


def test_only_background_rows_are_rejected_for_a_foreground_metric():
    log_p, labels = rare()
    kept = labels == 1
    with pytest.raises(ValueError, match="macro_f1_fg on the calibration rows, but none of these rows belongs"):
        CoordinateAscent().fit(log_p[kept], labels[kept], one(labels[kept]), [1])
