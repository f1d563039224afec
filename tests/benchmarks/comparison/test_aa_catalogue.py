"""A/A test: every kind of run of the catalogue against itself with other seeds, one table per kind.

It detects only gross errors: even a z test over the three seeds, which is wrong, gives a verdict in 3 % of these
tables. The level itself is checked by the simulations of test_verdict_levels.py.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from catalogue import CASES, COUNTS, data, trained

from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.comparison.groups import VarianceCorrection
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.resampled import resample

SEEDS = 3
"""Runs per side."""
EVALUATED = (120, 80, 50, 30, 20)
"""Evaluated rows of each class, two per group."""
NAMES = sorted(CASES)


def verdicts_of(name: str, index: int) -> dict[str, bool]:
    """Return the verdicts on a kind of run against itself, by metric."""
    rows = data(seed=index)
    part = data(counts=EVALUATED, seed=10_000 + index).train
    runs = [CASES[name].model_copy(update={"seed": seed}) for seed in range(2 * SEEDS)]
    heads = [ended.head for ended in trained(runs, rows)]
    predictions = [predictions_of(head, part) for head in heads]
    labels = part.labels.numpy()
    frame = Frame(labels, part.groups.numpy(), np.array(COUNTS))
    records = tuple(SimpleNamespace(seed=seed) for seed in range(SEEDS))
    sides = {"A": tuple(predictions[:SEEDS]), "B": tuple(predictions[SEEDS:])}
    paired = Paired(frame, sides, dict.fromkeys(sides, records), np.arange(len(labels)).astype(str))
    drawn = resample(paired, 300, 0)
    return {
        metric: bool(
            drawn.spreads[metric].differences(values, VarianceCorrection.of(frame, metric)).without_base().p[0] < 0.05
        )
        for metric, values in drawn.values.items()
    }


def predictions_of(head, part) -> Predictions:
    """Return a head's predictions for the evaluated rows."""
    log_p = head.logits(part.seen_by(head.reads)).double().log_softmax(1)
    p, labels = log_p.exp(), part.labels
    top, predicted = p.max(1)
    own = log_p.gather(1, labels[:, None])[:, 0]
    brier = p.square().sum(1) - own.exp().square() + (1 - own.exp()).square()
    return Predictions(*(values.numpy() for values in (predicted, top, top, own, brier)))


@pytest.mark.slow
def test_no_kind_of_run_differs_from_itself():
    """Allow 5 % of the kinds plus three standard errors per metric, and no kind on most metrics."""
    verdicts = {name: verdicts_of(name, index) for index, name in enumerate(NAMES)}
    kinds = len(verdicts)
    assert kinds > 150
    for metric in next(iter(verdicts.values())):
        given = sum(found[metric] for found in verdicts.values() if metric in found)
        assert given <= 0.05 * kinds + 3 * math.sqrt(0.05 * 0.95 * kinds), metric
    # Metrics of one table go together, yet a kind whose seeds are not what they seem would show in nearly all of them.
    assert [name for name, found in verdicts.items() if sum(found.values()) > 0.7 * len(found)] == []
