"""Every metric of every run on the same resamples, and the F1 of each class where two rows are set side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bootstrap import HIGHER_IS_BETTER, Floats, Sums, metrics_of, point_sums, resampled_sums
from benchmarks.paired import Paired


@dataclass(frozen=True)
class Resampled:
    """What R rows of S runs do on the rows themselves and on B resamples of them.

    Attributes:
        values: metric to its values, [R, S]; NaN where a run has none, and no metric that no run has.
        moved: metric to its means over seeds on the resamples, [R, B].
        class_deltas: [C, B] differences of F1 by class between the two rows that were asked for, means over seeds;
            empty where none were, or where a run of theirs has no figures.
    """

    values: dict[str, Floats]
    moved: dict[str, Floats]
    class_deltas: Floats


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
    deltas: npt.NDArray[Any] = np.empty((len(frame.train_counts) if first and second else 0, count), np.float32)
    moved = {name: np.full((len(runs), count), np.nan) for name in HIGHER_IS_BETTER}
    for piece, drawn in resampled_sums(frame, [runs[place] for place in sound], count, seed):
        for place, point, sums in zip(sound, points, drawn, strict=True):
            found = metrics_of(frame, sums)
            for name in point:
                # No resample of a whole piece may have a row of the metric; such a one counts with 0.
                moved[name][place, piece] = found.get(name, 0.0)
        if len(deltas):
            deltas[:, piece] = _mean_f1(drawn, second) - _mean_f1(drawn, first)
    return Resampled(*_by_row(paired, sound, points, moved), deltas)


def _places(paired: Paired, sound: Sequence[int], name: str) -> list[int]:
    """Where the runs of a row stand among the sound ones; empty where one of them is not sound."""
    start = list(paired.answers).index(name) * len(paired.seeds)
    wanted = range(start, start + len(paired.seeds))
    return [sound.index(place) for place in wanted] if set(wanted) <= set(sound) else []


def _mean_f1(drawn: Sequence[Sums], places: Sequence[int]) -> Floats:
    return np.asarray(sum(drawn[place].f1 for place in places) / len(places))


def _by_row(
    paired: Paired, sound: Sequence[int], points: Sequence[dict[str, Floats]], moved: dict[str, Floats]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The values, and the means over seeds, of each metric that some run has; the main metric is always there."""
    rows, seeds = len(paired.answers), len(paired.seeds)
    main, values, means = next(iter(HIGHER_IS_BETTER)), {}, {}
    for name in HIGHER_IS_BETTER:
        if name == main or any(name in point for point in points):
            each = np.full(rows * seeds, np.nan)
            for place, point in zip(sound, points, strict=True):
                each[place] = point[name][0] if name in point else np.nan
            values[name] = each.reshape(rows, seeds)
            means[name] = moved[name].reshape(rows, seeds, -1).mean(1)
    return values, means
