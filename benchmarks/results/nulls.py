"""Simulated outcomes of equally good methods, on which a comparison should give no verdict, and of better ones.

Each image has a latent margin: the sum of the ease of its class, effects of the image and its group common to all
methods, effects specific to a method, and effects specific to a run. A prediction is right if the margin is positive;
the predicted probability of the label is a logistic function of the margin. Every metric follows from this one number
per run and image.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from frostbench.benchmarks.comparison.frame import Floats, Frame, Predictions
from frostbench.benchmarks.comparison.paired import Paired

ROWS, CLASSES = 400, 8
SHARES = np.array([0.36, 0.23, 0.15, 0.1, 0.07, 0.045, 0.03, 0.015])
"""Shares of the groups by class: a long tail."""
EASE, STEEPNESS = 1.3, 1.5
"""Mean margin of an average class, and slope of the logistic function."""
TRAINED = np.array([400, 250, 160, 90, 50, 30, 15, 8])
"""Training rows by class: three classes with many, three with some and two with few."""


@dataclass(frozen=True)
class Regime:
    """Parameters of a simulation; all spreads are standard deviations of the margin.

    Attributes:
        name: name of the regime.
        words: one-sentence description.
        groups: number of groups, G; each belongs to one class.
        seeds: number of seeds, S.
        rows: number of rows compared with the base.
        seed_skill: spread of a run's skill, common to all images.
        seed_class: spread of a run's skill by class.
        seed_row: spread of a run by image.
        method_group: spread of a method by group.
        method_row: spread of a method by image.
        noisier_base: factor of the base's seed_skill and seed_class.
        together: correlation between the runs of different rows with the same seed.
        gain: added to the margin of every row except the base.
    """

    name: str
    words: str
    groups: int = 100
    seeds: int = 5
    rows: int = 1
    seed_skill: float = 0.05
    seed_class: float = 0.05
    seed_row: float = 0.3
    method_group: float = 0.0
    method_row: float = 0.0
    noisier_base: float = 1.0
    together: float = 0.0
    gain: float = 0.0


NULLS = (
    Regime("seeds, 5", "Seeds outweigh images by far; five of them.", seed_skill=0.3, seed_class=0.4),
    Regime("seeds, 3", "Seeds outweigh images by far; three of them.", seeds=3, seed_skill=0.3, seed_class=0.4),
    Regime("noisier base", "The base's seeds spread five times as far as the row's.", seeds=5, noisier_base=5,
           seed_skill=0.03, seed_class=0.05),
    Regime("noisier base, 3", "The same with three seeds.", seeds=3, noisier_base=5, seed_skill=0.03, seed_class=0.05),
    Regime("20 groups", "Twenty groups of twenty images; seeds and methods differ.", groups=20, seed_skill=0.1,
           seed_class=0.15, method_group=0.4),
    Regime("together", "Runs of one seed move together, correlation .8.", together=0.8, seed_skill=0.2, seed_class=0.3),
    Regime("images alone", "Methods differ by image and group, seeds hardly.", seed_skill=0.0, seed_class=0.0,
           seed_row=0.02, method_group=0.4, method_row=0.4),
    Regime("seeds by image", "Seeds differ by image alone: each is right on other images.", seed_skill=0.0,
           seed_class=0.0, seed_row=1.0),
    Regime("both", "Seeds and methods differ by as much.", seeds=5, seed_skill=0.15, seed_class=0.2, method_group=0.4,
           method_row=0.3),
    Regime("no groups", "Each image is a group of its own; both differ.", groups=400, seed_skill=0.15, seed_class=0.2,
           method_row=0.4),
    Regime("7 rows, 5 seeds", "Seven rows against a base; both differ.", rows=7, seed_skill=0.15, seed_class=0.2,
           method_group=0.3, method_row=0.3),
    Regime("7 rows, 3 seeds", "The same with three seeds.", rows=7, seeds=3, seed_skill=0.15, seed_class=0.2,
           method_group=0.3, method_row=0.3),
    Regime("7 noisier rows", "Seven rows whose seeds spread five times as far as the base's; three seeds.", rows=7,
           seeds=3, noisier_base=0.2, seed_skill=0.15, seed_class=0.2, method_group=0.2),
    Regime("2 seeds", "Seeds outweigh images, and there are two.", seeds=2, seed_skill=0.15, seed_class=0.2,
           method_group=0.2),
    Regime("7 rows, noisier base", "Seven rows, three seeds, and a base five times as noisy.", rows=7, seeds=3,
           noisier_base=5, seed_skill=0.03, seed_class=0.05, method_group=0.2),
)  # fmt: skip
"""Regimes in which all methods are equally good."""
BETTER = (
    Regime("seeds by image", "Seeds are right on other images, and hardly better or worse than one another.",
           seed_skill=0.03, seed_class=0.05, seed_row=1.0, gain=0.16),
    Regime("seeds by skill", "Seeds are better or worse on all images and classes.", seed_skill=0.1, seed_class=0.15,
           gain=0.16),
    Regime("both kinds, no groups", "Both, methods differ by image too, and each image is a group of its own.",
           groups=400, seed_skill=0.06, seed_class=0.08, seed_row=0.7, method_row=0.2, gain=0.16),
    Regime("images", "Methods differ by image and group, seeds hardly.", seed_skill=0.02, seed_class=0.02,
           method_group=0.2, method_row=0.3, gain=0.2),
    Regime("together by image", "Seeds by image; runs of one seed move together, correlation .8.", seed_skill=0.03,
           seed_class=0.05, seed_row=1.0, together=0.8, gain=0.16),
    Regime("together by skill", "Seeds by skill; runs of one seed move together, correlation .8.", seed_skill=0.1,
           seed_class=0.15, together=0.8, gain=0.16),
    Regime("almost the same", "Seeds by skill; runs of one seed move together, correlation .98.", seed_skill=0.1,
           seed_class=0.15, together=0.98, gain=0.08),
    Regime("7 rows, 5 seeds", "Seven rows; both kinds of seeds.", rows=7, seed_skill=0.05, seed_class=0.07,
           seed_row=0.8, gain=0.2),
    Regime("7 rows, 3 seeds", "The same with three seeds.", rows=7, seeds=3, seed_skill=0.05, seed_class=0.07,
           seed_row=0.8, gain=0.2),
)  # fmt: skip
"""Regimes in which every row is better than the base."""


def draw(regime: Regime, rng: np.random.Generator) -> Paired:
    """Simulate one table of a regime, in the form of runs loaded from a store.

    Args:
        regime: parameters of the simulation.
        rng: random generator.
    """
    groups = np.arange(ROWS) * regime.groups // ROWS
    of_group = rng.choice(CLASSES, regime.groups, p=SHARES / SHARES.sum())
    of_group[:CLASSES] = np.arange(CLASSES)
    labels = of_group[groups]
    margins = _margins(regime, labels, groups, rng)
    frame = Frame(labels.astype(np.int64), groups.astype(np.int64), TRAINED)
    other = (labels + rng.integers(1, CLASSES, ROWS)) % CLASSES
    names = ("base", *(f"row {number}" for number in range(1, regime.rows + 1)))
    predictions = {
        name: tuple(_predictions(margin, labels, other) for margin in row_margins)
        for name, row_margins in zip(names, margins, strict=True)
    }
    records = {
        name: tuple(cast(Any, SimpleNamespace(seed=seed, reason="all_epochs")) for seed in range(regime.seeds))
        for name in names
    }
    return Paired(frame, predictions, records, np.arange(ROWS).astype(str).astype(object))


def _margins(regime: Regime, labels: Any, groups: Any, rng: np.random.Generator) -> Floats:
    """Return the margin of every image in every run, [R, S, N]."""
    rows, seeds = regime.rows + 1, regime.seeds

    def by_run(size: int) -> Floats:
        """Draw normal numbers [R, S, size], correlated between the rows of one seed."""
        shared = rng.normal(size=(1, seeds, size)) * np.sqrt(regime.together)
        return np.asarray(shared + rng.normal(size=(rows, seeds, size)) * np.sqrt(1 - regime.together))

    ease = EASE + np.linspace(0.3, -0.6, CLASSES)[labels]
    everybody = 0.5 * rng.normal(size=regime.groups)[groups] + 0.7 * rng.normal(size=ROWS)
    method = regime.method_group * rng.normal(size=(rows, 1, regime.groups))[..., groups]
    method = method + regime.method_row * rng.normal(size=(rows, 1, ROWS))
    run = regime.seed_skill * by_run(1) + regime.seed_class * by_run(CLASSES)[..., labels]
    run[0] *= regime.noisier_base
    run += regime.seed_row * by_run(ROWS)
    gain = np.where(np.arange(rows) > 0, regime.gain, 0.0)[:, None, None]
    return np.asarray(ease + everybody + method + run + gain)


def _predictions(margin: Floats, labels: Any, other: Any) -> Predictions:
    """Return a run's predictions; the other classes share the remaining probability."""
    p = np.clip(1 / (1 + np.exp(-STEEPNESS * margin)), 1e-9, 1 - 1e-9)
    is_right = margin > 0
    confidence = np.where(is_right, np.maximum(p, 0.5), np.maximum(1 - p, 0.5))
    brier = 1.5 * (1 - p) ** 2
    return Predictions(np.where(is_right, labels, other), confidence, confidence, np.log(p), brier)
