"""What to label next: unlabelled rows ranked by how much their labels should improve a classifier."""

from typing import Literal, get_args

import numpy as np

from frostbench.embedcache.index.acquisition import (
    badge,
    entropy_uncertainty,
    k_center,
    margin_uncertainty,
    typical,
    uncertain_and_spread,
)
from frostbench.embedcache.index.confident import Floats
from frostbench.embedcache.index.rows import Numbers, Vectors

Strategy = Literal["auto", "random", "margin", "entropy", "k_center", "typical", "badge"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
NEEDS_PROBABILITIES = ("margin", "entropy", "badge")
UNLABELLED = -1
"""Label of a row without one."""
FEW_PER_CLASS = 3
"""`auto` begins with typical rows, until there are this many labels per class on average."""


def next_labels(
    x: Vectors, labels: Numbers, p: Floats | None, count: int, *, strategy: Strategy = "auto", seed: int = 0
) -> Numbers:
    """Return the rows to label next, the most useful first, int64 [count]; fewer if fewer have no label.

    - random: in random order.
    - margin, entropy: the least certain first (`margin_uncertainty`, `entropy_uncertainty`).
    - k_center: each the farthest from all that are labelled or chosen (`k_center`).
    - typical: typical rows of clusters without a label, which needs no classifier (`typical`).
    - badge: different and uncertain rows, by k-means++ on gradients (`badge`).
    - auto: typical rows while there are fewer than 3 labels per known class; then uncertain rows from different
      clusters (`uncertain_and_spread`, by margin). "TypiClust, then margin" is from Doucet, Estermann, Aczel and
      Wattenhofer, "Bridging diversity and uncertainty in active learning with self-supervised pre-training", ICLR
      workshops 2024.

    Args:
        x: vectors [N, D], float32, such as unit vectors or their principal components.
        labels: int [N], -1 for rows without a label.
        p: probabilities [N, C] by a classifier of the labelled rows; None before there is one.
        count: number of rows to choose, at least 1.
        strategy: see above.
        seed: of the strategies that draw at random.

    Raises:
        ValueError: shapes do not fit, a number is not finite, there is no such strategy, or it needs probabilities.
    """
    _check(x, labels, p, count, strategy)
    free = np.flatnonzero(labels == UNLABELLED)
    count = min(count, len(free))
    known, rng = labels != UNLABELLED, np.random.default_rng(seed)
    if count == 0 or strategy == "random":
        return np.asarray(rng.permutation(free)[:count])
    few = known.sum() < FEW_PER_CLASS * len(np.unique(labels[known]))
    if strategy == "typical" or (strategy == "auto" and (p is None or few)):
        return typical(x, known, count, seed)
    if p is None or strategy == "k_center":
        return k_center(x, known, count)
    if strategy == "badge":
        return free[badge(x[free], p[free], count, rng)]
    if strategy == "auto":
        return free[uncertain_and_spread(x[free], margin_uncertainty(p[free]), count, seed)]
    score = margin_uncertainty(p[free]) if strategy == "margin" else entropy_uncertainty(p[free])
    return free[np.argsort(-score, kind="stable")[:count]]


def _check(x: Vectors, labels: Numbers, p: Floats | None, count: int, strategy: str) -> None:
    if (
        x.ndim != 2
        or labels.shape != (len(x),)
        or (p is not None and (p.ndim != 2 or len(p) != len(x) or p.shape[1] < 2))
    ):
        raise ValueError(
            "Vectors [N, D], labels [N] and probabilities [N, C] of 2 or more classes must describe the same rows, got "
            f"{x.shape}, {labels.shape} and {None if p is None else p.shape}. Pass all rows, labelled or not."
        )
    if strategy not in STRATEGIES:
        raise ValueError(f"The strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}. Choose one of these.")
    if count < 1:
        raise ValueError(f"At least 1 row must be chosen, got {count}. Raise the count.")
    if p is None and strategy in NEEDS_PROBABILITIES:
        raise ValueError(
            f"The strategy {strategy} needs the probabilities of a classifier, got none. Fit one to the labelled rows, "
            "or use auto, typical, k_center or random."
        )
    if not np.isfinite(x).all() or (p is not None and not np.isfinite(p).all()):
        raise ValueError("Vectors and probabilities must be finite, got NaN or infinity. Leave these rows out.")
