"""What is kept of a finished run, and which runs are the rows of a bench."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict

from frostbench.training.engine.events import Choices
from frostbench.training.metrics.classification import NOTHING, Preference, preferred

OUTCOMES = ("id", "role", "group", "label", "predicted", "confidence", "confidence_raw", "log_p", "brier")
"""Columns of outcomes: label and predicted index the classes; confidence_raw is that before any temperature."""


_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")


@dataclass(frozen=True)
class DataFacts:
    """What a run was trained and evaluated on.

    Attributes:
        cache: folder of the cache, as the bench names it; for the reader, not for identity.
        table: content hash of the table.
        split: hash of the split.
        columns: vector columns that the head reads.
        class_names: C names; every class index below is a place in it.
        background: class indices left out of the foreground.
        rows: rows by role.
        groups: groups by role.
        train_counts: [C] training rows.
        missing: class names without a row, by role.
        small: class names with too few rows to have one in every fold of the split.
        forced: class names that got a whole group back for training, since every group had been cut away.
        warnings: what the split says about itself.
        folds: of the cross-validation whose predictions are judged as select; 0 where selection rows are.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    cache: str
    table: str
    split: str
    columns: tuple[str, ...]
    class_names: tuple[str, ...]
    background: tuple[int, ...]
    rows: dict[str, int]
    groups: dict[str, int]
    train_counts: tuple[int, ...]
    missing: dict[str, tuple[str, ...]]
    small: tuple[str, ...]
    forced: tuple[str, ...]
    warnings: tuple[str, ...]
    folds: int = 0


@dataclass(frozen=True)
class Evaluation:
    """What the head does on the rows of one role.

    Attributes:
        metrics: as `frostbench.training.metrics.classification.all_metrics`.
        per_class: support, predicted, precision, recall and f1, each [C].
        confusion: (label, predicted, rows) of every pair that occurs.
        calibration: `before` and `after` temperature scaling, the metrics of
            `frostbench.training.metrics.calibration.calibration_metrics`, and after it also the temperature. It is
            fitted to the calibration rows; without any, to selection rows for those of test, and else fold by fold to
            the other rows.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    metrics: dict[str, float | None]
    per_class: dict[str, tuple[float, ...]]
    confusion: tuple[tuple[int, int, int], ...]
    calibration: dict[str, dict[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """One finished run. It has no name: names belong to benches.

    Attributes:
        format_version: of the record.
        key: name of the run: its settings, table, split and engine.
        engine: engine version.
        spec: the settings that differ from their default.
        full_spec: all settings.
        data: what it was trained and evaluated on.
        evaluations: by role, select and test.
        shot: [C] many, medium, few or absent, by training rows.
        temperature: of the head's own prior; 1 where it is not calibrated.
        reason: why training ended.
        epoch: the epoch that was kept; 0 where there are no epochs.
        seconds: wall time of training; runs that were trained together share it, and each has all of it.
        gradient_norm: the solver's certificate; None for stepped runs.
        curve: by epoch, the training loss, the metrics of the selection rows, and what the loss logged of itself.
        environment: versions, threads and device.
        together: heads that were trained in the same stack, this one included; seconds are those of all of them.
        chosen: what the selection rows, or held-out folds, chose for it.
        members: of an ensemble, keys of the runs whose probabilities it averages; its settings hold the seed alone.
        notes: what is to be said of how it went: training that was not done, probabilities that are far off, a
            calibration whose rows have no optimum.
        digests: SHA-256 of the run's other files by name; empty for runs from before they were kept.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    format_version: Literal[1]
    key: str
    engine: int
    spec: dict[str, Any]
    full_spec: dict[str, Any]
    data: DataFacts
    evaluations: dict[str, Evaluation]
    shot: tuple[str, ...]
    temperature: float
    reason: str
    epoch: int
    seconds: float
    gradient_norm: float | None
    curve: dict[str, tuple[float | None, ...]]
    environment: dict[str, str]
    together: int = 1
    chosen: Choices = field(default_factory=Choices)
    members: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.full_spec["seed"])

    @property
    def selection_value(self) -> float | None:
        """Macro F1 on the selection rows; None where the split has none, or none of a foreground class."""
        found = self.evaluations.get("select")
        return None if found is None else found.metrics["macro_f1_fg"]


def notes_by_seed(records: Sequence[RunRecord]) -> list[str]:
    """What runs of one setting say of themselves: each sentence once, with the seeds that say it.

    Of sentences that differ in their numbers alone the first is given in full.
    """
    alike: dict[str, dict[str, list[str]]] = {}
    for run in records:
        for note in run.notes:
            alike.setdefault(_NUMBER.sub("#", note), {}).setdefault(note, []).append(str(run.seed))
    found = []
    for (note, seeds), *others in (tuple(each.items()) for each in alike.values()):
        more = ", ".join(seed for _, own in others for seed in own)
        found.append(f"seed {', '.join(seeds)}: {note}" + (f" (seed {more}: likewise)" if more else ""))
    return found


def best_of(records: Sequence[RunRecord]) -> RunRecord:
    """The run that is best on the selection rows; the first, where none has a value to choose by."""
    return max(records, key=lambda record: mean_preference([record]))


def mean_preference(records: Sequence[RunRecord]) -> Preference:
    """What runs are ranked by: their mean macro F1 on the selection rows, and where it ties their mean NLL there.

    NOTHING where none has a value.
    """
    known = [record for record in records if record.selection_value is not None]
    values = [record.selection_value or 0.0 for record in known]
    nlls = [nll for record in known if (nll := record.evaluations["select"].metrics["nll"]) is not None]
    if not values:
        return NOTHING
    return preferred(sum(values) / len(values), sum(nlls) / len(nlls) if nlls else None)


@dataclass(frozen=True)
class BenchRows:
    """The rows of a bench on one cache.

    Attributes:
        cache: folder of the cache.
        rows: row name to its run keys, one per seed; the first row is the base.
    """

    cache: str
    rows: dict[str, tuple[str, ...]]
