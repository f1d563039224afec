"""Defines the record of a finished run, and ranks and summarises records."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict

from frostbench.training.engine.events import Choices
from frostbench.training.metrics.classification import NOTHING, Preference, preferred

OUTCOMES = ("id", "role", "group", "label", "predicted", "confidence", "confidence_raw", "log_p", "brier")
"""Columns of outcomes: label and predicted are class indices; confidence_raw is before any calibration."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")


@dataclass(frozen=True)
class DataFacts:
    """Data that a run was trained and evaluated on.

    Attributes:
        cache: folder of the cache, as the bench names it; informative, not part of the run's identity.
        table: content hash of the table.
        split: hash of the split.
        columns: vector columns that the head reads.
        class_names: C class names; class indices below refer to them.
        background: class indices left out of the foreground metrics.
        rows: number of rows by role.
        groups: number of groups by role.
        train_counts: [C] number of training rows.
        missing: names of classes without rows, by role.
        small: names of classes with too few rows to have one in every fold of the split.
        forced: names of classes that got a whole group back for training because the split had left them none.
        warnings: warnings about the split.
        folds: number of folds if `select` holds cross-validated predictions, or 0 if it holds validation rows.
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
    """Metrics of a head on the rows of one role.

    Attributes:
        metrics: metrics of `frostbench.training.metrics.classification.all_metrics`.
        per_class: support, predicted, precision, recall and f1, each [C].
        confusion: (label, predicted, rows) of every pair that occurs.
        calibration: metrics of `frostbench.training.metrics.calibration.calibration_metrics` `before` and `after`
            temperature scaling, the latter with the temperature. It is fitted to the calibration rows; without any, to
            the validation rows if test rows are evaluated, else by cross-fitting on the evaluated rows.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    metrics: dict[str, float | None]
    per_class: dict[str, tuple[float, ...]]
    confusion: tuple[tuple[int, int, int], ...]
    calibration: dict[str, dict[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """Record of one finished run, which is identified by its key; row names belong to benches.

    Attributes:
        format_version: format version of the record.
        key: key of the run, from its settings, table, split and engine version.
        engine: engine version.
        spec: settings that differ from their default.
        full_spec: all settings.
        data: data that the run was trained and evaluated on.
        evaluations: evaluations by role, `select` (validation rows) and `test`.
        shot: [C] many, medium, few or absent, by the number of training rows.
        temperature: temperature for the head's own prior, or 1 without calibration.
        reason: why training ended.
        epoch: epoch that was kept, or 0 if the head is not trained in epochs.
        seconds: wall time of training; runs trained in one stack all have the time of the stack.
        gradient_norm: gradient norm at the solver's solution, or None for heads trained with gradient steps.
        curve: training loss, validation metrics and values logged by the loss, each by epoch.
        environment: versions, threads and device.
        together: number of heads trained in the same stack, including this one.
        chosen: choices made on the validation rows or held-out folds.
        members: keys of the runs whose probabilities an ensemble averages, or () for other runs; the settings of an
            ensemble hold only the seed.
        notes: notes on unfinished training, badly calibrated probabilities, or calibration without an optimum.
        digests: SHA-256 of the run's other files by name; empty for older runs.
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
        """Seed of the run."""
        return int(self.full_spec["seed"])

    @property
    def selection_value(self) -> float | None:
        """Macro F1 on the validation rows, or None if there are no such rows of a foreground class."""
        evaluation = self.evaluations.get("select")
        return None if evaluation is None else evaluation.metrics["macro_f1_fg"]


def notes_by_seed(records: Sequence[RunRecord]) -> list[str]:
    """Return the notes of runs of one setting, each once with its seeds.

    Of notes that differ only in numbers, only the first is given, followed by the seeds of the others as "similar".
    """
    alike: dict[str, dict[str, list[str]]] = {}
    for run in records:
        for note in run.notes:
            alike.setdefault(_NUMBER.sub("#", note), {}).setdefault(note, []).append(str(run.seed))
    lines = []
    for (note, seeds), *others in (tuple(variants.items()) for variants in alike.values()):
        more = ", ".join(seed for _, other_seeds in others for seed in other_seeds)
        lines.append(f"seed {', '.join(seeds)}: {note}" + (f" (seed {more}: similar)" if more else ""))
    return lines


def best_of(records: Sequence[RunRecord]) -> RunRecord:
    """Return the run that is best on the validation rows, or the first run if no run has a value."""
    return max(records, key=lambda record: mean_preference([record]))


def mean_preference(records: Sequence[RunRecord]) -> Preference:
    """Return the sort key of runs: mean macro F1 on the validation rows, then mean NLL; NOTHING without values."""
    known = [record for record in records if record.selection_value is not None]
    values = [record.selection_value or 0.0 for record in known]
    nlls = [nll for record in known if (nll := record.evaluations["select"].metrics["nll"]) is not None]
    if not values:
        return NOTHING
    return preferred(sum(values) / len(values), sum(nlls) / len(nlls) if nlls else None)


@dataclass(frozen=True)
class BenchRows:
    """Run keys of a bench's rows on one cache.

    Attributes:
        cache: folder of the cache.
        rows: run keys by row name, one per seed; the first row is the base.
    """

    cache: str
    rows: dict[str, tuple[str, ...]]
