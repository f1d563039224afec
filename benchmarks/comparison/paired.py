"""Runs of several rows, joined image by image."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from frostbench.benchmarks.comparison.bootstrap import Frame, Predictions
from frostbench.benchmarks.runs.record import DataFacts, RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record


@dataclass(frozen=True)
class Paired:
    """Runs of several rows, joined on the same images.

    Attributes:
        frame: the images.
        answers: row name to the answers of each seed's run.
        records: row name to the records; the first row is the baseline.
        ids: [N] the ids of the images, sorted.
    """

    frame: Frame
    answers: dict[str, tuple[Predictions, ...]]
    records: dict[str, tuple[RunRecord, ...]]
    ids: npt.NDArray[np.object_]

    @property
    def baseline(self) -> str:
        """The name of the first row."""
        return next(iter(self.records))

    @property
    def facts(self) -> DataFacts:
        """What the baseline was trained and evaluated on; the split and classes are those of all."""
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
    """The records and answers of rows of runs, joined by image.

    Raises:
        StoreError: a run is missing, or runs are of other images, splits, seeds, classes or background classes.
    """
    return join(store, {name: tuple(read_record(store, key) for key in keys) for name, keys in rows.items()}, role)


def join(store: Path, records: Mapping[str, tuple[RunRecord, ...]], role: str) -> Paired:
    """The runs of these records, joined by image: their caches may differ, the images that they judged may not.

    Raises:
        StoreError: outcomes are missing, or runs are of other images, splits, seeds, classes or background classes.
    """
    _check_comparable(records)
    outcomes = {name: [read_outcomes(store, run.key, role) for run in runs] for name, runs in records.items()}
    first = next(iter(outcomes.values()))[0]
    for name, frames in outcomes.items():
        for run, own in zip(records[name], frames, strict=True):
            _check_same_rows(own, first, f"{name!r} (cache {run.data.cache}, run {run.key})")
    data = next(iter(records.values()))[0].data
    labels, counts = first["label"].to_numpy(np.int64), np.array(data.train_counts, dtype=np.int64)
    frame = Frame(labels, _numbered(first["group"], labels), counts, data.background)
    if not frame.classes["fg"].any():
        raise StoreError(
            f"a comparison needs rows of foreground classes, however: all rows of role {role!r} are background. Name "
            "fewer background classes, or choose another split."
        )
    answers = {name: tuple(map(_answers, frames)) for name, frames in outcomes.items()}
    return Paired(frame, answers, dict(records), first["id"].to_numpy(object))


def _numbered(names: "pd.Series[str]", labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Groups [N] as numbers from 0, by label: the sums of a class then read neighbouring numbers, which is faster."""
    order = np.argsort(labels, kind="stable")
    groups = np.empty(len(labels), dtype=np.int64)
    groups[order] = pd.factorize(names.iloc[order])[0]
    return groups


def _answers(outcomes: pd.DataFrame) -> Predictions:
    names = ("confidence", "confidence_raw", "log_p", "brier")
    return Predictions(
        outcomes["predicted"].to_numpy(np.int64), *(outcomes[name].to_numpy(np.float64) for name in names)
    )


def _check_comparable(records: Mapping[str, tuple[RunRecord, ...]]) -> None:
    base = next(iter(records.values()))
    for name, runs in records.items():
        seeds, wanted = [r.seed for r in runs], [r.seed for r in base]
        if seeds != wanted:
            raise StoreError(
                f"compared rows need the same seeds, however: {name!r} has {seeds} and the baseline {wanted}. "
                "Run both with the same seeds."
            )
        for run in runs:
            for what, shown, remedy in SAME:
                own, other = shown(run.data), shown(base[0].data)
                if own != other:
                    raise StoreError(
                        f"compared runs must have the same {what}, however: {name!r} has {_told(own, other)} (cache "
                        f"{run.data.cache}, run {run.key}) and the baseline {_told(other, own)} (cache "
                        f"{base[0].data.cache}). {remedy}"
                    )


def _background(data: DataFacts) -> tuple[str, ...]:
    return tuple(data.class_names[place] for place in data.background)


SAME: tuple[tuple[str, Callable[[DataFacts], str | tuple[str, ...]], str], ...] = (
    ("classes", lambda data: data.class_names, "Embed both caches from the same listing, or merge classes in neither."),
    (
        "split",
        lambda data: data.split[:12],
        "Image by image they cannot be compared: use caches of the same images and one split (seed and shares) for "
        "both, then train the one that differs again.",
    ),
    ("background", _background, "Name the same background classes for both, then train the one that differs again."),
)
"""What compared runs have in common besides their rows, how it is read, and what to do where it differs."""


def _told(own: str | tuple[str, ...], other: str | tuple[str, ...]) -> str:
    """A value in words; of class names, the count and the first that the other lacks."""
    if isinstance(own, str):
        return own
    more = [name for name in own if name not in other]
    return f"{len(own) or 'none'}" + (f", {more[0]!r} among them" if more else "")


def _check_same_rows(own: pd.DataFrame, first: pd.DataFrame, who: str) -> None:
    """Refuse outcomes that are not of the same rows as the baseline's, saying what differs."""
    if len(own) == len(first) and (own["id"] == first["id"]).all():
        for column in ("label", "group"):
            differ = (own[column] != first[column]).to_numpy(bool)
            if differ.any():
                raise StoreError(
                    f"compared runs must have judged the same images, however: {who} has another {column} than the "
                    f"baseline for {differ.sum()} of {len(first)} images, such as {first['id'][differ.argmax()]!r}. "
                    "Give both caches the same labels and groups, then train the one that is out of date again."
                )
        return
    missing, more = len(set(first["id"]) - set(own["id"])), len(set(own["id"]) - set(first["id"]))
    raise StoreError(
        f"compared runs must have judged the same images, however: {who} lacks {missing} of the {len(first)} images of "
        f"the baseline and has {more} others. Delete the run's folder and train it again."
    )
