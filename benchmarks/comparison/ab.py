"""Compare side A with side B: two sets of runs on the same images, with verdicts, classes, reliability and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frostbench.benchmarks.comparison.changes import Change, data_changes, head_parameters, option_changes
from frostbench.benchmarks.comparison.class_deltas import CellChange, ClassRow, class_rows, confusion_change
from frostbench.benchmarks.comparison.compare import RESAMPLES, Comparison, Role, comparison_of
from frostbench.benchmarks.comparison.frame import Bools, Floats
from frostbench.benchmarks.comparison.metrics import MAIN as MAIN
from frostbench.benchmarks.comparison.paired import Paired, join
from frostbench.benchmarks.comparison.reliability import Bins, bins_of
from frostbench.benchmarks.comparison.resampled import resample
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_record

SIDES = ("A", "B")


@dataclass(frozen=True)
class Side:
    """The runs of one side.

    Attributes:
        name: A or B.
        keys: run keys, one per compared seed.
        cache: folder of the cache, as configured for the run.
        columns: vector columns that the head reads.
        seconds: training time in seconds, mean over seeds.
        parameters: number of parameters in body and classifier, or None if no head is stored with the run.
        temperatures: one per seed; 1 if the run is not calibrated.
        before: reliability before temperature scaling, all seeds pooled.
        after: reliability of the final predictions, all seeds pooled.
        ece_before: expected calibration error before temperature scaling, mean over seeds.
        ece: expected calibration error of the final predictions, mean over seeds; equals `ece` in the table.
        confusion: (label, predicted, rows) of every pair that occurs, for the first seed.
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
    """Images grouped by whether A and B predict them correctly.

    Attributes:
        rows: number of images that B fixes, B breaks, both get wrong and both get right; mean over seeds.
        ids: sorted image ids of the same four sets, for the first seed.
    """

    rows: Mapping[str, float]
    ids: Mapping[str, tuple[str, ...]]


FIXES, BREAKS, BOTH_WRONG, BOTH_RIGHT = "fixes", "breaks", "both wrong", "both right"
"""Keys of the mappings in `Flips`."""


@dataclass(frozen=True)
class Pair:
    """Result of comparing side A with side B.

    Attributes:
        comparison: the table of differences; its rows are A, the baseline, and B.
        sides: evaluated results of A and B.
        class_names: C class names.
        classes: one entry per class.
        confusion: cells of the confusion matrix that differ, largest change first.
        flips: images that both sides, only A, only B, or neither classify correctly.
        resolution: half the width of the main metric's interval, about the smallest difference that these images and
            seeds can resolve; NaN without an interval.
        options: options in which B differs from A.
        left_out: notes on runs that were not compared.
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
        role: role of the rows to evaluate on; use test only once everything else is decided.
        resamples: number of bootstrap resamples, B.
        seed: random seed of the resamples.

    Raises:
        StoreError: a side has two runs of a seed, both sides have the same run or share no seed, a run is missing, or
            the runs were evaluated on different images.
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


def _common(
    runs_by_side: Mapping[str, Sequence[RunRecord]],
) -> tuple[dict[str, tuple[RunRecord, ...]], tuple[str, ...]]:
    """Return the runs of the seeds that both sides have, in order, and notes on the others."""
    by_seed = {name: {run.seed: run for run in runs} for name, runs in runs_by_side.items()}
    for name, runs in runs_by_side.items():
        if len(by_seed[name]) < len(runs):
            raise StoreError(
                f"Each side must have one run per seed, but {name} has runs of the seeds {[run.seed for run in runs]}. "
                "Choose one run per seed."
            )
    a, b = (by_seed[name] for name in SIDES)
    seeds = sorted(set(a) & set(b))
    if not seeds:
        raise StoreError(
            f"A and B must have a seed in common, but A has {_listed(a)} and B has {_listed(b)}. Train both with the "
            "same seeds."
        )
    if any(a[seed].key == b[seed].key for seed in seeds):
        raise StoreError(
            "A and B must be different runs, but A and B are the same run. Choose another run or change an option."
        )
    unmatched = {name: [seed for seed in side_seeds if seed not in seeds] for name, side_seeds in by_seed.items()}
    notes = tuple(
        f"Only seeds that both sides have are compared; {name} also has seed {_listed(seeds_left)}."
        for name, seeds_left in unmatched.items()
        if seeds_left
    )
    return {name: tuple(by_seed[name][seed] for seed in seeds) for name in SIDES}, notes


def _listed(seeds: Mapping[int, RunRecord] | Sequence[int]) -> str:
    return ", ".join(map(str, sorted(seeds))) or "none"


def _side(store: Path, paired: Paired, name: str, role: Role) -> Side:
    runs, predictions = paired.records[name], paired.predictions[name]
    right_by_seed = _right(paired, name)
    right = right_by_seed.ravel()
    return Side(
        name=name,
        keys=tuple(run.key for run in runs),
        cache=runs[0].data.cache,
        columns=runs[0].data.columns,
        seconds=sum(run.seconds for run in runs) / len(runs),
        parameters=_parameters(store, runs[0]),
        temperatures=tuple(run.temperature for run in runs),
        before=bins_of(np.concatenate([run.confidence_raw for run in predictions]), right),
        after=bins_of(np.concatenate([run.confidence for run in predictions]), right),
        # Errors of opposite sign in different seeds cancel in pooled bins, so a pooled ECE would be smaller.
        ece_before=_mean_ece([run.confidence_raw for run in predictions], right_by_seed),
        ece=_mean_ece([run.confidence for run in predictions], right_by_seed),
        confusion=runs[0].evaluations[role].confusion,
    )


def _mean_ece(confidences: Sequence[Floats], right: Bools) -> float:
    """Return the mean over seeds of the ECE; NaN if one seed has none, as in the table."""
    return float(np.mean([bins_of(*seed).ece for seed in zip(confidences, right, strict=True)]))


def _parameters(store: Path, run: RunRecord) -> int | None:
    """Return the number of parameters of a run's head, or of all heads of an ensemble; None if one is not stored."""
    counts = [head_parameters(store, key) for key in run.members or (run.key,)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _flips(paired: Paired) -> Flips:
    a, b = (_right(paired, name) for name in SIDES)
    masks = {FIXES: ~a & b, BREAKS: a & ~b, BOTH_WRONG: ~a & ~b, BOTH_RIGHT: a & b}
    return Flips(
        {name: float(chosen.sum(1).mean()) for name, chosen in masks.items()},
        {name: tuple(paired.ids[chosen[0]].tolist()) for name, chosen in masks.items()},
    )


def _right(paired: Paired, name: str) -> Bools:
    return np.stack([run.predicted == paired.frame.labels for run in paired.predictions[name]])
