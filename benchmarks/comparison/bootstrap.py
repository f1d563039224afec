"""The paired group bootstrap: how much a metric varies with the choice of groups.

Every metric is a function of sums over rows. The sums of each group are computed once, [K, G]. A resample of the groups
is a vector of multiplicities [G], so the sums of B resamples are one product [K, G] x [G, B]. It is computed for all
runs at once, in chunks of resamples that fit into the processor's cache.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array

from frostbench.benchmarks.comparison.draws import resamples
from frostbench.benchmarks.comparison.frame import Floats, Frame, Ints, Predictions
from frostbench.benchmarks.comparison.metrics import Sums
from frostbench.training.metrics.classification import ECE_BINS

CELLS = 2**19
"""Multiplicities, or sums, per chunk: 2 MiB of float32."""
FEWEST_RESAMPLES, MOST_RESAMPLES = 16, 512
"""Limits on the resamples per chunk, whatever the number of groups and sums."""
FLOAT32_ROWS = 2**18
"""Below this many rows, float32 holds every count exactly, and sums of losses to five digits."""


def point_sums(frame: Frame, runs: Sequence[Predictions]) -> list[Sums]:
    """Return the sums of each run over the original rows, B = 1."""
    return sums_of(frame, runs, np.ones((frame.n_groups, 1)))


def sums_of(frame: Frame, runs: Sequence[Predictions], multiplicities: Floats) -> list[Sums]:
    """Return the sums of each run on the same resamples, given the multiplicity of each group, [G, B]."""
    return _split(frame, _by_group(frame, runs) @ multiplicities, len(runs))


def resampled_sums(
    frame: Frame, runs: Sequence[Predictions], count: int, seed: int
) -> Iterator[tuple[slice, list[Sums]]]:
    """Yield the sums of each run on the same resamples of the groups, as chunks (slice of resamples, sums).

    Args:
        frame: the rows.
        runs: the predictions to compare.
        count: total number of resamples.
        seed: random seed of the resamples.
    """
    dtype = np.float32 if len(frame.labels) < FLOAT32_ROWS else np.float64
    by_group = _by_group(frame, runs).astype(dtype)
    step = min(MOST_RESAMPLES, max(FEWEST_RESAMPLES, CELLS // max(by_group.shape)))
    start = 0
    for multiplicities in resamples(frame.n_groups, count, seed, step):
        chunk = slice(start, start + multiplicities.shape[1])
        yield chunk, _split(frame, by_group @ multiplicities.astype(dtype, copy=False), len(runs))
        start = chunk.stop


def _by_group(frame: Frame, runs: Sequence[Predictions]) -> Any:
    """Return sparse sums by group, [K, G]: C that all runs share, then 2 C + 3 + bins per run."""
    classes, rows = len(frame.train_counts), np.arange(len(frame.labels))
    entries = [(frame.labels, rows, np.ones(len(rows)))]
    for number, run in enumerate(runs):
        start = classes + number * (2 * classes + 3 + ECE_BINS)
        entries += [(start + kind, row, value) for kind, row, value in _entries(frame, run)]
    kind, row, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    shape = (classes + len(runs) * (2 * classes + 3 + ECE_BINS), frame.n_groups)
    return coo_array((value, (kind.astype(np.int32), frame.groups[row].astype(np.int32))), shape=shape).tocsr()


def _entries(frame: Frame, run: Predictions) -> list[tuple[Ints, Ints, Floats]]:
    """Return the contributions of one run to its sums, as (index of the sum, row, value), each [n]."""
    classes, rows = len(frame.train_counts), np.arange(len(frame.labels))
    right, trained = frame.labels == run.predicted, ~np.isneginf(run.log_p)
    bins = np.clip(np.ceil(run.confidence * ECE_BINS).astype(np.int64) - 1, 0, ECE_BINS - 1)
    ones, scalars = np.ones(len(rows)), 2 * classes
    return [
        (frame.labels[right], rows[right], ones[right]),
        (classes + run.predicted, rows, ones),
        (np.full(int((~trained).sum()), scalars), rows[~trained], ones[~trained]),
        (np.full(int(trained.sum()), scalars + 1), rows[trained], -run.log_p[trained]),
        (np.full(len(rows), scalars + 2), rows, run.brier),
        (scalars + 3 + bins, rows, run.confidence - right),
    ]


def _split(frame: Frame, product: Floats, runs: int) -> list[Sums]:
    c = len(frame.train_counts)
    support, by_run = product[:c], product[c:].reshape(runs, 2 * c + 3 + ECE_BINS, -1)
    rows = support.sum(0)
    return [
        Sums(support, rows, s[:c], s[c : 2 * c], rows - s[2 * c], s[2 * c + 1], s[2 * c + 2], s[2 * c + 3 :])
        for s in by_run
    ]
