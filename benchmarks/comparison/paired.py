"""Load the runs of several rows and join them image by image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.runs.record import DataFacts, RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record
from frostbench.benchmarks.settings.nouns import with_noun


@dataclass(frozen=True)
class Paired:
    """Runs of several rows, joined on the same images.

    Attributes:
        frame: the images.
        predictions: row name to the predictions of each seed's run.
        records: row name to the run records; the first row is the baseline.
        ids: [N] image ids, sorted.
    """

    frame: Frame
    predictions: dict[str, tuple[Predictions, ...]]
    records: dict[str, tuple[RunRecord, ...]]
    ids: npt.NDArray[np.object_]

    @property
    def baseline(self) -> str:
        """Name of the first row."""
        return next(iter(self.records))

    @property
    def facts(self) -> DataFacts:
        """Data that the baseline was trained and evaluated on; all rows share its split and classes."""
        return self.records[self.baseline][0].data

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of every row."""
        return tuple(record.seed for record in self.records[self.baseline])

    @property
    def rows(self) -> dict[str, tuple[str, ...]]:
        """Row name to run keys, one per seed."""
        return {name: tuple(record.key for record in records) for name, records in self.records.items()}


def load(store: Path, rows: Mapping[str, Sequence[str]], role: str) -> Paired:
    """Load the records and predictions of rows of runs, joined by image.

    Raises:
        StoreError: a run is missing, or the runs differ in images, splits, seeds, classes or background classes.
    """
    return join(store, {name: tuple(read_record(store, key) for key in keys) for name, keys in rows.items()}, role)


def join(store: Path, records: Mapping[str, tuple[RunRecord, ...]], role: str) -> Paired:
    """Join the runs of these records by image; their caches may differ, but not the images they were evaluated on.

    Raises:
        StoreError: outcomes are missing, or the runs differ in images, splits, seeds, classes or background classes.
    """
    _check_comparable(records)
    outcomes = {name: [read_outcomes(store, run.key, role) for run in runs] for name, runs in records.items()}
    first = next(iter(outcomes.values()))[0]
    for name, frames in outcomes.items():
        for run, run_outcomes in zip(records[name], frames, strict=True):
            _check_same_rows(run_outcomes, first, f"{name!r} (cache {run.data.cache}, run {run.key})")
    data = next(iter(records.values()))[0].data
    labels, counts = first["label"].to_numpy(np.int64), np.array(data.train_counts, dtype=np.int64)
    frame = Frame(labels, _group_indices(first["group"], labels), counts, data.background)
    if not frame.classes["fg"].any():
        raise StoreError(
            f"A comparison needs rows of foreground classes, but all rows of role {role!r} are background. Name fewer "
            "background classes, or choose another split."
        )
    predictions = {name: tuple(map(_predictions, frames)) for name, frames in outcomes.items()}
    return Paired(frame, predictions, dict(records), first["id"].to_numpy(object))


def _group_indices(names: "pd.Series[str]", labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number the groups [N] in label order; the sums of a class then read adjacent memory, which is faster."""
    order = np.argsort(labels, kind="stable")
    groups = np.empty(len(labels), dtype=np.int64)
    groups[order] = pd.factorize(names.iloc[order])[0]
    return groups


def _predictions(outcomes: pd.DataFrame) -> Predictions:
    names = ("confidence", "confidence_raw", "log_p", "brier")
    return Predictions(
        outcomes["predicted"].to_numpy(np.int64), *(outcomes[name].to_numpy(np.float64) for name in names)
    )


def _check_comparable(records: Mapping[str, tuple[RunRecord, ...]]) -> None:
    base = next(iter(records.values()))
    for name, runs in records.items():
        seeds, base_seeds = [r.seed for r in runs], [r.seed for r in base]
        if seeds != base_seeds:
            raise StoreError(
                f"Compared rows must have the same seeds, but {name!r} has {seeds} and the baseline has {base_seeds}. "
                "Run both with the same seeds."
            )
        for run in runs:
            for fact, read, remedy in SAME:
                value, expected = read(run.data), read(base[0].data)
                if value != expected:
                    raise StoreError(
                        f"Compared runs must have the same {fact}, but {name!r} has {_described(value, expected)} "
                        f"(cache {run.data.cache}, run {run.key}) and the baseline has {_described(expected, value)} "
                        f"(cache {base[0].data.cache}). {remedy}"
                    )


def _background(data: DataFacts) -> tuple[str, ...]:
    return tuple(data.class_names[i] for i in data.background)


SAME: tuple[tuple[str, Callable[[DataFacts], str | tuple[str, ...]], str], ...] = (
    (
        "classes",
        lambda data: data.class_names,
        "Extract both caches from the same listing; merge classes in both or neither.",
    ),
    (
        "split",
        lambda data: data.split[:12],
        "They cannot be compared image by image: use caches of the same images and the same split (seed and shares) "
        "for both, then retrain the one that differs.",
    ),
    (
        "background classes",
        _background,
        "Name the same background classes for both, then retrain the one that differs.",
    ),
)
"""Properties that compared runs must share besides their images, how to read each, and the remedy if it differs."""


def _described(value: str | tuple[str, ...], other: str | tuple[str, ...]) -> str:
    """Describe a value; for class names, their number and the first that the other value lacks."""
    if isinstance(value, str):
        return value
    extra = [name for name in value if name not in other]
    return f"{len(value) or 'none'}" + (f", including {extra[0]!r}" if extra else "")


def _check_same_rows(outcome: pd.DataFrame, first: pd.DataFrame, name: str) -> None:
    """Raise an error that names the difference if images, labels or groups are not those of the baseline."""
    if len(outcome) == len(first) and (outcome["id"] == first["id"]).all():
        for column in ("label", "group"):
            is_different = (outcome[column] != first[column]).to_numpy(bool)
            if is_different.any():
                raise StoreError(
                    f"Compared runs must be evaluated on the same images, but the {column} in {name} differs from that "
                    f"of the baseline for {is_different.sum()} of {with_noun(len(first), 'image')}, such as "
                    f"{first['id'][is_different.argmax()]!r}. Give both caches the same labels and groups, then "
                    "retrain the outdated run."
                )
        return
    missing, extra = len(set(first["id"]) - set(outcome["id"])), len(set(outcome["id"]) - set(first["id"]))
    raise StoreError(
        f"Compared runs must be evaluated on the same images, but {name} lacks {missing} of the baseline's "
        f"{with_noun(len(first), 'image')} and has {with_noun(extra, 'other')}. Delete the run's folder and train it "
        "again."
    )
