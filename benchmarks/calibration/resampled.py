"""Calibration metrics of many runs on the same resamples of the groups: row by row of a bench, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from frostbench.benchmarks.calibration.runs import SIDES, Said
from frostbench.benchmarks.comparison.draws import resamples
from frostbench.benchmarks.comparison.resampled import Resampled
from frostbench.benchmarks.comparison.spread import Spread
from frostbench.training.metrics.bins import Floats, Ints, sums_by
from frostbench.training.metrics.calibration import HIGHER_IS_BETTER as OF_CALIBRATION
from frostbench.training.metrics.calibration import TITLES, Judged, measured
from frostbench.training.metrics.ood import SCORES, auroc, resampled_auroc

HIGHER_IS_BETTER: Mapping[str, bool] = MappingProxyType({**OF_CALIBRATION, **{f"auroc_{s}": True for s in SCORES}})
"""The direction of every metric of the report that has a better side."""
Figures = dict[str, tuple[float, Floats]]
"""By metric, the value and that on each of the resamples, [B]."""
CELLS = 2**21
"""Weights, or sums by class and bin, of one piece of resamples: 16 MiB of float64."""
FEWEST, MOST = 16, 512
"""Resamples of one piece."""


@dataclass(frozen=True)
class Draws:
    """Resamples of the groups of N rows, the same for every run.

    Attributes:
        groups: [N] group numbers from 0.
        count: resamples, B.
        seed: of the draws.
    """

    groups: Ints
    count: int
    seed: int

    def weights(self, sums: int) -> Iterator[tuple[slice, Floats]]:
        """Which resamples, and how often each row came up in them, [N, b]; pieces fit for that many sums of each."""
        step = min(MOST, max(FEWEST, CELLS // max(len(self.groups), sums)))
        start = 0
        for piece in resamples(int(self.groups.max()) + 1, self.count, self.seed, step):
            yield slice(start, start + piece.shape[1]), piece.astype(np.float64)[self.groups]
            start += piece.shape[1]


@dataclass
class Gathered:
    """Values of R rows of S runs, gathered run by run, those of the first row before the others.

    Memory is that of one run and of its figures, and of the first row's figures on the resamples.

    Attributes:
        rows: names of the rows.
        seeds: how many runs each has, S.
        count: resamples, B.
        values: by side and metric, [R, S]; NaN where a run has none.
        moved: by side and metric, sums over seeds on the resamples, [R, B].
        each: by side and metric, sums over seeds of the variance over the resamples, [R].
        apart: the same of the difference from the first row's run of the seed.
        base: by side and metric, the first row on the resamples, [S, B].
        has_own: whether some head has a calibration of its own.
    """

    rows: Sequence[str]
    seeds: int
    count: int
    values: dict[str, dict[str, Floats]] = field(default_factory=dict)
    moved: dict[str, dict[str, Floats]] = field(default_factory=dict)
    each: dict[str, dict[str, Floats]] = field(default_factory=dict)
    apart: dict[str, dict[str, Floats]] = field(default_factory=dict)
    base: dict[str, dict[str, Floats]] = field(default_factory=dict)
    has_own: bool = False

    def add(self, row: str, seed: int, said: Said, draws: Draws, others: Draws | None) -> None:
        """Measure what a run says, itself and on the resamples.

        Args:
            row: name of the row.
            seed: place of the seed.
            said: what the run says.
            draws: resamples of the judged rows.
            others: resamples of the rows that are told apart from them, if any.
        """
        at = list(self.rows).index(row)
        self.has_own |= said.has_own
        figures: dict[int, Figures] = {}
        for side, judged in said.judged.items():
            if judged.is_number:
                if id(judged) not in figures:
                    figures[id(judged)] = _figures(judged, draws)
                self._add(side, at, seed, figures[id(judged)])
        for side, pairs in said.told_apart.items():
            if others is not None:
                self._add(side, at, seed, {f"auroc_{k}": _auroc(*pair, draws, others) for k, pair in pairs.items()})

    @property
    def sides(self) -> list[str]:
        """The sides that some run has; `as_is` only where some head has a calibration of its own."""
        return [side for side in SIDES if side in self.values and (side != "as_is" or self.has_own)]

    def _add(self, side: str, at: int, seed: int, figures: Figures) -> None:
        for name, (value, moved) in figures.items():
            shape = (len(self.rows), self.seeds)
            _held(self.values, side, name, shape, np.nan)[at, seed] = value
            _held(self.moved, side, name, (len(self.rows), self.count), 0.0)[at] += moved
            base = _held(self.base, side, name, (self.seeds, self.count), np.nan)
            if at == 0:
                base[seed] = moved
            _held(self.each, side, name, (len(self.rows),), 0.0)[at] += moved.var(ddof=1)
            _held(self.apart, side, name, (len(self.rows),), 0.0)[at] += (moved - base[seed]).var(ddof=1)

    def of(self, side: str) -> Resampled:
        """The figures of one side, as `frostbench.benchmarks.comparison.deltas` takes them; NaN where none is."""
        values, moved, spreads = self.values[side], {}, {}
        for name, sums in self.moved[side].items():
            lacking = np.where(np.isfinite(values[name]), 0.0, np.nan).sum(1)
            moved[name] = sums / self.seeds + lacking[:, None]
            spreads[name] = Spread(
                each=self.each[side][name] / self.seeds + lacking,
                mean=moved[name].var(1, ddof=1),
                apart=self.apart[side][name] / self.seeds + lacking,
                between=(moved[name] - moved[name][0]).var(1, ddof=1),
            )
        return Resampled(values, moved, spreads)


def _held(of: dict[str, dict[str, Floats]], side: str, name: str, shape: tuple[int, ...], value: float) -> Floats:
    """The array of a side and metric, made where it is not there yet."""
    return of.setdefault(side, {}).setdefault(name, np.full(shape, value))


def _figures(judged: Judged, draws: Draws) -> Figures:
    found = {name: np.empty(draws.count) for name in TITLES}
    for piece, weights in draws.weights(judged.p.shape[1] * judged.classes.bins):
        for name, values in measured(judged, weights).items():
            found[name][piece] = values
    return {name: (float(values[0]), found[name]) for name, values in measured(judged).items()}


def _auroc(known: Floats, other: Floats, draws: Draws, others: Draws) -> tuple[float, Floats]:
    """AUROC, also on resamples of both sets of rows, drawn apart; pieces of both are of one size."""
    most = max(len(known), len(other))
    pairs = zip(draws.weights(most), others.weights(most), strict=True)
    moved = [resampled_auroc(known, other, own, more) for (_, own), (_, more) in pairs]
    return auroc(known, other), np.concatenate(moved)


def binned_accuracy(places: Sequence[Ints], rights: Sequence[Floats], bins: int, draws: Draws) -> tuple[Floats, Floats]:
    """Ends [bins] of the 95 % intervals of accuracy by bin, over several runs together; NaN where a bin has no rows."""
    shares = []
    for _, weights in draws.weights(bins):
        rows, right = np.zeros((bins, weights.shape[1])), np.zeros((bins, weights.shape[1]))
        for place, own in zip(places, rights, strict=True):
            rows += sums_by(place, bins, weights)
            right += sums_by(place, bins, weights * own[:, None])
        shares.append(np.divide(right, rows, out=np.full_like(rows, np.nan), where=rows > 0))
    return quantiles(np.concatenate(shares, axis=1))


def quantiles(drawn: Floats) -> tuple[Floats, Floats]:
    """Ends [P] of the middle 95 % of values [P, B]; resamples without a value are left out, NaN where none has one."""
    ends = np.full((2, len(drawn)), np.nan)
    some = np.isfinite(drawn).any(1)
    if some.any():
        ends[:, some] = np.nanpercentile(drawn[some], [2.5, 97.5], axis=1)
    return ends[0], ends[1]
