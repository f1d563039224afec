"""Every metric of every run on the same resamples, and the F1 of each class where two rows are set side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frostbench.benchmarks.comparison.bootstrap import (
    HIGHER_IS_BETTER,
    Floats,
    Sums,
    metrics_of,
    point_sums,
    resampled_sums,
)
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.spread import Moments, Spread

MAIN = next(iter(HIGHER_IS_BETTER))


@dataclass(frozen=True)
class Resampled:
    """What R rows of S runs do on the rows themselves and on B resamples of them.

    Attributes:
        values: metric to its values, [R, S]; NaN where a run has none, and no metric that no run has.
        moved: metric to its means over seeds on the resamples, [R, B].
        spreads: metric to how far the runs of each row move on the resamples, [R]; the base is the first row.
        classes: how far F1 by class moves, [C], between the two rows that were asked for; None where none were, or
            where a run of theirs has no figures.
    """

    values: dict[str, Floats]
    moved: dict[str, Floats]
    spreads: dict[str, Spread]
    classes: Spread | None = None


def resample(paired: Paired, count: int, seed: int, sides: tuple[str, str] | None = None) -> Resampled:
    """Draw resamples of the groups, and take every metric on them.

    Args:
        paired: the rows.
        count: resamples, B.
        seed: of the draws.
        sides: the two rows of which F1 by class is wanted too, the baseline first.
    """
    frame, runs = paired.frame, [run for runs in paired.answers.values() for run in runs]
    sound = [place for place, run in enumerate(runs) if run.are_numbers]
    points = [metrics_of(frame, sums) for sums in point_sums(frame, [runs[place] for place in sound])]
    first, second = (_places(paired, sound, name) for name in sides) if sides else ([], [])
    classes = _ClassMoments(first, second) if first and second else None
    moved = {name: np.full((len(runs), count), np.nan) for name in _present(points)}
    for piece, drawn in resampled_sums(frame, [runs[place] for place in sound], count, seed):
        for place, point, sums in zip(sound, points, drawn, strict=True):
            found = metrics_of(frame, sums)
            for name in point:
                # No resample of a whole piece may have a row of the metric; such a one counts with 0.
                moved[name][place, piece] = found.get(name, 0.0)
        if classes is not None:
            classes.add(drawn)
    shape = (len(paired.answers), len(paired.seeds))
    by_row = {name: each.reshape(*shape, count) for name, each in moved.items()}
    return Resampled(
        values={name: _values(name, sound, points, shape) for name in moved},
        moved={name: each.mean(1) for name, each in by_row.items()},
        spreads={name: Spread.of(each) for name, each in by_row.items()},
        classes=None if classes is None else classes.spread,
    )


def _present(points: Sequence[dict[str, Floats]]) -> list[str]:
    """The metrics that some run has, in order; the main metric is always there."""
    return [name for name in HIGHER_IS_BETTER if name == MAIN or any(name in point for point in points)]


def _places(paired: Paired, sound: Sequence[int], name: str) -> list[int]:
    """Where the runs of a row stand among the sound ones; empty where one of them is not sound."""
    start = list(paired.answers).index(name) * len(paired.seeds)
    wanted = range(start, start + len(paired.seeds))
    return [sound.index(place) for place in wanted] if set(wanted) <= set(sound) else []


def _values(name: str, sound: Sequence[int], points: Sequence[dict[str, Floats]], shape: tuple[int, int]) -> Floats:
    """The values [R, S] of a metric; NaN where a run has none."""
    each = np.full(shape[0] * shape[1], np.nan)
    for place, point in zip(sound, points, strict=True):
        each[place] = point[name][0] if name in point else np.nan
    return each.reshape(shape)


class _ClassMoments:
    """The spread of F1 by class between the runs at two lists of places, gathered piece by piece."""

    def __init__(self, first: Sequence[int], second: Sequence[int]) -> None:
        self.places = (first, second)
        self.each, self.mean, self.apart, self.between = Moments(), Moments(), Moments(), Moments()

    def add(self, drawn: Sequence[Sums]) -> None:
        """Take in the sums of all runs on a piece of the resamples."""
        f1 = np.stack([np.stack([drawn[place].f1 for place in own]) for own in self.places]).astype(np.float64)
        self.each.add(f1)
        self.mean.add(f1.mean(1))
        self.apart.add(f1[1] - f1[0])
        self.between.add((f1[1] - f1[0]).mean(0))

    @property
    def spread(self) -> Spread:
        """Of both rows [2, C], the base first."""
        none = np.zeros_like(self.between.variance)
        apart = np.stack([none, self.apart.variance.mean(0)])
        return Spread(self.each.variance.mean(1), self.mean.variance, apart, np.stack([none, self.between.variance]))
