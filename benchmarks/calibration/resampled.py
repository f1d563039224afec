"""Calibration metrics of many runs on the same resamples of the groups, by row and side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from frostbench.benchmarks.calibration.runs import SIDES, RunProbabilities
from frostbench.benchmarks.comparison.draws import resamples
from frostbench.benchmarks.comparison.resampled import Resampled
from frostbench.benchmarks.comparison.spread import Spread
from frostbench.training.metrics.bins import Floats, Ints, sums_by
from frostbench.training.metrics.calibration import HIGHER_IS_BETTER as OF_CALIBRATION
from frostbench.training.metrics.calibration import TITLES, Judged, measured
from frostbench.training.metrics.ood import SCORES, auroc, resampled_auroc

HIGHER_IS_BETTER: Mapping[str, bool] = MappingProxyType({**OF_CALIBRATION, **{f"auroc_{s}": True for s in SCORES}})
"""Direction of every metric of the report for which one direction is better."""
Results = dict[str, tuple[float, Floats]]
"""Metric to (value, values on the resamples [B])."""
CELLS = 2**21
"""Weights, or sums by class and bin, per chunk of resamples: 16 MiB of float64."""
FEWEST, MOST = 16, 512
"""Limits on the resamples per chunk."""


@dataclass(frozen=True)
class Draws:
    """Resamples of the groups of N rows, the same for every run.

    Attributes:
        groups: [N] group indices from 0.
        count: number of resamples, B.
        seed: random seed.
    """

    groups: Ints
    count: int
    seed: int

    def weights(self, sums: int) -> Iterator[tuple[slice, Floats]]:
        """Yield chunks (slice of resamples, multiplicity of each row [N, b]), sized for this many sums per resample."""
        step = min(MOST, max(FEWEST, CELLS // max(len(self.groups), sums)))
        start = 0
        for piece in resamples(int(self.groups.max()) + 1, self.count, self.seed, step):
            yield slice(start, start + piece.shape[1]), piece.astype(np.float64)[self.groups]
            start += piece.shape[1]


@dataclass
class Gathered:
    """Metrics of R rows of S runs, accumulated run by run; the first row must be added first.

    Memory holds the results of one run, and those of the first row on the resamples.

    Attributes:
        rows: names of the rows.
        seeds: number of runs per row, S.
        count: number of resamples, B.
        values: by side and metric, [R, S]; NaN if a run lacks it.
        replicate_sums: by side and metric, sums over seeds on the resamples, [R, B].
        variances: by side and metric, sums over seeds of the variance over the resamples, [R].
        delta_variances: the same for the difference from the first row's run of the same seed.
        base: by side and metric, values of the first row on the resamples, [S, B].
        has_own: whether some head has a calibration of its own.
    """

    rows: Sequence[str]
    seeds: int
    count: int
    values: dict[str, dict[str, Floats]] = field(default_factory=dict)
    replicate_sums: dict[str, dict[str, Floats]] = field(default_factory=dict)
    variances: dict[str, dict[str, Floats]] = field(default_factory=dict)
    delta_variances: dict[str, dict[str, Floats]] = field(default_factory=dict)
    base: dict[str, dict[str, Floats]] = field(default_factory=dict)
    has_own: bool = False

    def add(self, row: str, seed: int, probabilities: RunProbabilities, draws: Draws, others: Draws | None) -> None:
        """Compute the metrics of a run on the original rows and on the resamples.

        Args:
            row: name of the row.
            seed: index of the seed.
            probabilities: probabilities predicted by the run.
            draws: resamples of the evaluated rows.
            others: resamples of the rows for OOD detection, or None.
        """
        row_index = list(self.rows).index(row)
        self.has_own |= probabilities.has_own
        results: dict[int, Results] = {}
        for side, judged in probabilities.by_side.items():
            if judged.is_number:
                if id(judged) not in results:
                    results[id(judged)] = _results(judged, draws)
                self._add(side, row_index, seed, results[id(judged)])
        for side, pairs in probabilities.ood_scores.items():
            if others is not None:
                self._add(
                    side, row_index, seed, {f"auroc_{k}": _auroc(*pair, draws, others) for k, pair in pairs.items()}
                )

    @property
    def sides(self) -> list[str]:
        """Sides that some run has; `as_is` only if some head has a calibration of its own."""
        return [side for side in SIDES if side in self.values and (side != "as_is" or self.has_own)]

    def _add(self, side: str, row_index: int, seed: int, results: Results) -> None:
        for name, (value, replicates) in results.items():
            shape = (len(self.rows), self.seeds)
            _array_of(self.values, side, name, shape, np.nan)[row_index, seed] = value
            _array_of(self.replicate_sums, side, name, (len(self.rows), self.count), 0.0)[row_index] += replicates
            base = _array_of(self.base, side, name, (self.seeds, self.count), np.nan)
            if row_index == 0:
                base[seed] = replicates
            _array_of(self.variances, side, name, (len(self.rows),), 0.0)[row_index] += replicates.var(ddof=1)
            delta_variance = (replicates - base[seed]).var(ddof=1)
            _array_of(self.delta_variances, side, name, (len(self.rows),), 0.0)[row_index] += delta_variance

    def of(self, side: str) -> Resampled:
        """Return the metrics of one side for `frostbench.benchmarks.comparison.deltas`; NaN if a run lacks one."""
        values, replicates, spreads = self.values[side], {}, {}
        for name, sums in self.replicate_sums[side].items():
            nan_if_missing = np.where(np.isfinite(values[name]), 0.0, np.nan).sum(1)
            replicates[name] = sums / self.seeds + nan_if_missing[:, None]
            spreads[name] = Spread(
                run=self.variances[side][name] / self.seeds + nan_if_missing,
                mean=replicates[name].var(1, ddof=1),
                run_delta=self.delta_variances[side][name] / self.seeds + nan_if_missing,
                mean_delta=(replicates[name] - replicates[name][0]).var(1, ddof=1),
            )
        return Resampled(values, replicates, spreads)


def _array_of(of: dict[str, dict[str, Floats]], side: str, name: str, shape: tuple[int, ...], value: float) -> Floats:
    return of.setdefault(side, {}).setdefault(name, np.full(shape, value))


def _results(judged: Judged, draws: Draws) -> Results:
    replicates = {name: np.empty(draws.count) for name in TITLES}
    for piece, weights in draws.weights(judged.p.shape[1] * judged.classes.bins):
        for name, values in measured(judged, weights).items():
            replicates[name][piece] = values
    return {name: (float(values[0]), replicates[name]) for name, values in measured(judged).items()}


def _auroc(known: Floats, other: Floats, draws: Draws, others: Draws) -> tuple[float, Floats]:
    """Return AUROC, and its values [B] on independent resamples of both sets, drawn in chunks of the same size."""
    most = max(len(known), len(other))
    pairs = zip(draws.weights(most), others.weights(most), strict=True)
    replicates = [resampled_auroc(known, other, w_known, w_other) for (_, w_known), (_, w_other) in pairs]
    return auroc(known, other), np.concatenate(replicates)


def binned_accuracy(
    bins_by_run: Sequence[Ints], right_by_run: Sequence[Floats], bins: int, draws: Draws
) -> tuple[Floats, Floats]:
    """Return the ends [bins] of the 95 % interval of each bin's accuracy, pooled over runs; NaN for an empty bin."""
    shares = []
    for _, weights in draws.weights(bins):
        rows, right = np.zeros((bins, weights.shape[1])), np.zeros((bins, weights.shape[1]))
        for bin_index, run_right in zip(bins_by_run, right_by_run, strict=True):
            rows += sums_by(bin_index, bins, weights)
            right += sums_by(bin_index, bins, weights * run_right[:, None])
        shares.append(np.divide(right, rows, out=np.full_like(rows, np.nan), where=rows > 0))
    return quantiles(np.concatenate(shares, axis=1))


def quantiles(replicates: Floats) -> tuple[Floats, Floats]:
    """Return the ends [P] of the middle 95 % of values [P, B], ignoring NaN; NaN where all values are NaN."""
    ends = np.full((2, len(replicates)), np.nan)
    some = np.isfinite(replicates).any(1)
    if some.any():
        ends[:, some] = np.nanpercentile(replicates[some], [2.5, 97.5], axis=1)
    return ends[0], ends[1]
