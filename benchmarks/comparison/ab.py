"""Side A against side B: everything that can be said of two sets of runs on the same images, read at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.comparison.bootstrap import HIGHER_IS_BETTER
from frostbench.benchmarks.comparison.changes import Change, data_changes, head_parameters, option_changes
from frostbench.benchmarks.comparison.class_deltas import CellChange, ClassRow, class_rows, confusion_change
from frostbench.benchmarks.comparison.compare import RESAMPLES, Comparison, Role, comparison_of
from frostbench.benchmarks.comparison.paired import Paired, join
from frostbench.benchmarks.comparison.reliability import Bins, bins_of
from frostbench.benchmarks.comparison.resampled import resample
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_record

MAIN = next(iter(HIGHER_IS_BETTER))
SIDES = ("A", "B")


@dataclass(frozen=True)
class Side:
    """The runs of one side.

    Attributes:
        name: A or B.
        keys: one run for each compared seed.
        cache: folder of the cache, as the run was told it.
        columns: vector columns that the head reads.
        seconds: of training, mean over seeds.
        parameters: numbers that body and classifier hold; None where no head is kept with the run.
        temperatures: one for each seed; 1 where the run is not calibrated.
        before: reliability before any temperature, all seeds together.
        after: that of the predictions as they are given.
        ece_before: expected calibration error before any temperature: the mean over seeds, as all metrics are.
        ece: that of the predictions as they are given, which is the `ece` of the table.
        confusion: (label, predicted, rows) of every pair that occurs, of the first seed.
    """

    name: str
    keys: tuple[str, ...]
    cache: str
    columns: tuple[str, ...]
    seconds: float
    parameters: int | None
    temperatures: tuple[float, ...]
    before: Bins
    after: Bins
    ece_before: float
    ece: float
    confusion: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Flips:
    """On which images A and B are right or wrong.

    Attributes:
        rows: B fixes, B breaks, both wrong, both right: images, mean over seeds.
        ids: the same for the first seed, as sorted ids.
    """

    rows: Mapping[str, float]
    ids: Mapping[str, tuple[str, ...]]


FIXES, BREAKS, BOTH_WRONG, BOTH_RIGHT = "fixes", "breaks", "both wrong", "both right"
"""Keys of Flips."""


@dataclass(frozen=True)
class Pair:
    """What comparing side A with side B found.

    Attributes:
        comparison: the table of differences; its rows are A, the baseline, and B.
        sides: A and B.
        class_names: C names.
        classes: every class.
        confusion: cells of the confusion matrix that differ, those that changed most first.
        flips: images that changed.
        resolution: about the smallest difference of the main metric that these images and seeds could have shown: half
            the width of its interval, as a share; NaN where it has none.
        options: options in which B differs from A.
        left_out: sentences on runs that were not compared.
    """

    comparison: Comparison
    sides: tuple[Side, Side]
    class_names: tuple[str, ...]
    classes: tuple[ClassRow, ...]
    confusion: tuple[CellChange, ...]
    flips: Flips
    resolution: float
    options: tuple[Change, ...]
    left_out: tuple[str, ...]


def pair(
    store: Path,
    a_keys: Sequence[str],
    b_keys: Sequence[str],
    role: Role = "select",
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Pair:
    """Compare the runs of side A with those of side B, on the seeds that both have.

    Args:
        store: the run store.
        a_keys: run keys of side A, one per seed.
        b_keys: run keys of side B.
        role: whose rows are compared; test only when everything else is decided.
        resamples: bootstrap resamples, B.
        seed: of the resamples.

    Raises:
        StoreError: both sides are the same run or share no seed, a run is missing, or the runs did not judge the same
            images.
    """
    keys = {"A": a_keys, "B": b_keys}
    records, left_out = _common({name: [read_record(store, key) for key in keys[name]] for name in SIDES})
    paired = join(store, records, role)
    drawn = resample(paired, resamples, seed, SIDES)
    comparison = comparison_of(store, paired, drawn, role, title="A against B", resamples=resamples)
    line, first = comparison.line("B", MAIN), [records[name][0] for name in SIDES]
    return Pair(
        comparison=comparison,
        sides=(_side(store, paired, "A", role), _side(store, paired, "B", role)),
        class_names=paired.facts.class_names,
        classes=class_rows(paired, SIDES, drawn.classes),
        confusion=confusion_change(paired, SIDES),
        flips=_flips(paired),
        resolution=(line["high"] - line["low"]) / 2,
        options=data_changes(*first) + option_changes(*first),
        left_out=left_out,
    )


def _common(found: Mapping[str, Sequence[RunRecord]]) -> tuple[dict[str, tuple[RunRecord, ...]], tuple[str, ...]]:
    """The runs of the seeds that both sides have, in order, and sentences on those left out."""
    by_seed = {name: {run.seed: run for run in runs} for name, runs in found.items()}
    for name, runs in found.items():
        if len(by_seed[name]) < len(runs):
            raise StoreError(
                f"a side holds one run for each seed, however: {name} has the seeds {[run.seed for run in runs]}. "
                "Choose one run of each."
            )
    a, b = (by_seed[name] for name in SIDES)
    seeds = sorted(set(a) & set(b))
    if not seeds:
        raise StoreError(
            f"A and B need a seed in common, however: A has {_listed(a)} and B {_listed(b)}. Train both with the same "
            "seeds."
        )
    if any(a[seed].key == b[seed].key for seed in seeds):
        raise StoreError(
            "A and B must be two runs, however: A and B are the same run. Choose another run or another option for one."
        )
    others = {name: [seed for seed in own if seed not in seeds] for name, own in by_seed.items()}
    notes = tuple(
        f"Seed {_listed(left)} of {name} is left out, for the other side was not trained with it."
        for name, left in others.items()
        if left
    )
    return {name: tuple(by_seed[name][seed] for seed in seeds) for name in SIDES}, notes


def _listed(seeds: Mapping[int, RunRecord] | Sequence[int]) -> str:
    return ", ".join(map(str, sorted(seeds))) or "none"


def _side(store: Path, paired: Paired, name: str, role: Role) -> Side:
    runs, answers = paired.records[name], paired.answers[name]
    each = [run.predicted == paired.frame.labels for run in answers]
    right = np.concatenate(each)
    return Side(
        name=name,
        keys=tuple(run.key for run in runs),
        cache=runs[0].data.cache,
        columns=runs[0].data.columns,
        seconds=sum(run.seconds for run in runs) / len(runs),
        parameters=_parameters(store, runs[0]),
        temperatures=tuple(run.temperature for run in runs),
        before=bins_of(np.concatenate([run.confidence_raw for run in answers]), right),
        after=bins_of(np.concatenate([run.confidence for run in answers]), right),
        # Errors that cancel between seeds cancel in the pooled bins too, so theirs would be another, smaller figure.
        ece_before=_mean_ece([run.confidence_raw for run in answers], each),
        ece=_mean_ece([run.confidence for run in answers], each),
        confusion=runs[0].evaluations[role].confusion,
    )


def _mean_ece(confidences: Sequence[npt.NDArray[np.float64]], right: Sequence[npt.NDArray[np.bool_]]) -> float:
    """The mean over seeds of the calibration error of each; NaN where one has none, as in the table."""
    return float(np.mean([bins_of(sure, correct).ece for sure, correct in zip(confidences, right, strict=True)]))


def _parameters(store: Path, run: RunRecord) -> int | None:
    """The numbers of a run's head, or of all heads of an ensemble; None where one is not kept."""
    each = [head_parameters(store, key) for key in run.members or (run.key,)]
    known = [count for count in each if count is not None]
    return sum(known) if len(known) == len(each) else None


def _flips(paired: Paired) -> Flips:
    a, b = (_right(paired, name) for name in SIDES)
    each = {FIXES: ~a & b, BREAKS: a & ~b, BOTH_WRONG: ~a & ~b, BOTH_RIGHT: a & b}
    return Flips(
        {name: float(chosen.sum(1).mean()) for name, chosen in each.items()},
        {name: tuple(paired.ids[chosen[0]].tolist()) for name, chosen in each.items()},
    )


def _right(paired: Paired, name: str) -> npt.NDArray[np.bool_]:
    """Whether each run of a side is right about each row, [S, N]."""
    return np.stack([run.predicted == paired.frame.labels for run in paired.answers[name]])
