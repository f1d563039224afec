"""Runs of several rows, joined image by image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.bootstrap import Answers, Frame
from benchmarks.record import DataFacts, RunRecord
from benchmarks.store import StoreError, read_outcomes, read_record


@dataclass(frozen=True)
class Paired:
    """Runs of several rows, joined on the same images.

    Attributes:
        frame: the images.
        answers: row name to the answers of each seed's run.
        records: row name to the records; the first row is the baseline.
    """

    frame: Frame
    answers: dict[str, tuple[Answers, ...]]
    records: dict[str, tuple[RunRecord, ...]]

    @property
    def baseline(self) -> str:
        """The name of the first row."""
        return next(iter(self.records))

    @property
    def facts(self) -> DataFacts:
        """What the baseline was trained and evaluated on; the rows, split and classes are those of all."""
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
        StoreError: a run is missing, or runs are of other tables, splits, seeds or background classes.
    """
    records = {name: tuple(read_record(store, key) for key in keys) for name, keys in rows.items()}
    _check_comparable(records)
    outcomes = {name: [read_outcomes(store, key, role) for key in keys] for name, keys in rows.items()}
    first = next(iter(outcomes.values()))[0]
    for name, frames in outcomes.items():
        if any(not other[["id", "label"]].equals(first[["id", "label"]]) for other in frames):
            raise StoreError(
                f"compared runs must have judged the same images, however: those of {name!r} differ. Delete the "
                "folders of its runs and run the bench again."
            )
    data = next(iter(records.values()))[0].data
    groups = np.unique(first["group"].to_numpy(str), return_inverse=True)[1]
    labels, counts = first["label"].to_numpy(np.int64), np.array(data.train_counts, dtype=np.int64)
    frame = Frame(labels, groups, counts, data.background)
    if not frame.classes()["fg"].any():
        raise StoreError(
            f"a comparison needs rows of foreground classes, however: all rows of role {role!r} are background. Name "
            "fewer background classes, or choose another split."
        )
    return Paired(frame, {name: tuple(map(_answers, frames)) for name, frames in outcomes.items()}, records)


def _answers(outcomes: pd.DataFrame) -> Answers:
    predicted = outcomes["predicted"].to_numpy(np.int64)
    return Answers(predicted, *(outcomes[name].to_numpy(np.float64) for name in ("confidence", "log_p", "brier")))


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
            for what in ("table", "split", "background"):
                own, other = getattr(run.data, what), getattr(base[0].data, what)
                if own != other:
                    raise StoreError(
                        f"compared runs must have the same {what}, however: {name!r} has {str(own)[:12]} (cache "
                        f"{run.data.cache}) and the baseline {str(other)[:12]} (cache {base[0].data.cache}). Compare "
                        "runs of one cache, one split and the same background classes."
                    )
