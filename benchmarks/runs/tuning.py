"""Picks the winning setting of each tuned row by a metric of the validation rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from frostbench.benchmarks.runs.failures import failure_of
from frostbench.benchmarks.runs.keys import bench_rows, ensemble_keys
from frostbench.benchmarks.runs.store import StoreError, is_finished, read_record, require_runs
from frostbench.benchmarks.runs.tuning_edges import edges
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import FALLING, BenchSpec, Row, TuneMetric, expand
from frostbench.training.metrics.classification import NOTHING, Preference, preferred
from frostbench.training.run import RunSpec

NAMES: Mapping[TuneMetric, str] = MappingProxyType(
    {
        "macro_f1_fg": "macro F1",
        "balanced_accuracy": "balanced accuracy",
        "accuracy": "accuracy",
        "nll": "NLL",
        "brier": "Brier score",
    }
)
"""Names of the metrics that settings can win by."""


@dataclass(frozen=True)
class Tried:
    """One setting of a row, trained with every seed.

    Attributes:
        name: name such as `lr=0.01, margin=0.3`, or "" for a row that is not tuned.
        changes: changes to the row, by dotted option.
        spec: run of the first seed.
        keys: run keys, one per seed.
        value: mean over the seeds of the tuning metric on the validation rows, or None if the setting cannot win.
        problem: why the setting cannot win, or "".
        nll: mean over the seeds of the validation NLL, which breaks ties, or None if it is not known.
    """

    name: str
    changes: dict[str, Any]
    spec: RunSpec
    keys: tuple[str, ...]
    value: float | None
    problem: str
    nll: float | None = None

    def preference(self, by: TuneMetric) -> Preference:
        """Return the sort key of this setting for a tuning metric; a lower NLL breaks ties."""
        if self.value is None:
            return NOTHING
        return preferred(-self.value if by in FALLING else self.value, self.nll)


@dataclass(frozen=True)
class Tuned:
    """Settings of a row and the winner among them.

    Attributes:
        tried: settings in the order listed.
        winner: setting with the best value; ties are broken by the lowest NLL, then by order.
        edges: options for which the winner has the smallest or largest value tried, as text; empty if all settings
            are equally good.
        by: tuning metric.
    """

    tried: tuple[Tried, ...]
    winner: Tried
    edges: tuple[str, ...]
    by: TuneMetric = "macro_f1_fg"

    @property
    def was_chosen(self) -> bool:
        """Whether there was more than one setting to choose from."""
        return len(self.tried) > 1

    @property
    def is_tied(self) -> bool:
        """Whether several settings all have the same value and NLL, as if their changes had no effect."""
        return self.was_chosen and len({(setting.value, setting.nll) for setting in self.tried}) == 1


@dataclass(frozen=True)
class ChosenRows:
    """Rows of a bench on one cache, each with the runs of its winning setting.

    Attributes:
        cache: folder of the cache.
        rows: run keys by row name, one per seed; for a tuned row, those of its winner. The first row is the base, and
            ensembles come last, with keys of their own.
        tuned: settings and winner by row name; empty if the bench does not tune.
    """

    cache: str
    rows: dict[str, tuple[str, ...]]
    tuned: dict[str, Tuned]


def chosen_rows(bench: BenchSpec, only: Sequence[str] | None = None) -> tuple[ChosenRows, ...]:
    """Return the rows of a bench on each of its caches, with the runs of the setting that won on that cache.

    Settings win by the bench's `tune_by` on validation rows, or on held-out rows with cross-validation. Test rows are
    not used.

    Args:
        bench: the bench; without `tune` its runs need not be trained.
        only: names of the rows to return, or None for all.

    Raises:
        SettingsError: a row is not in the bench, or a row is invalid.
        StoreError: a run of a tuned row is missing, or no setting of a row can win.
        ValueError: as in `bench_rows`.
    """
    rows = expand(bench)
    names = [*dict.fromkeys(row.row for row in rows), *bench.ensembles]
    for name in only or ():
        if name not in names:
            raise SettingsError(f"A row of this bench must be one of {names}, got {name!r}. Name one of them.")
    requested = names if only is None else [name for name in names if name in only]
    needed = {row for name in requested for row in bench.ensembles.get(name, (name,))}
    members = [row for row in rows if row.row in needed]
    parts = [rows_on_cache(bench, part.cache, part.rows, members) for part in bench_rows(bench)]
    return tuple(_with_ensembles(bench, part, requested) for part in parts)


def _with_ensembles(bench: BenchSpec, part: ChosenRows, requested: Sequence[str]) -> ChosenRows:
    """Select the requested rows and add the requested ensembles of the rows' winners."""
    keys = {name: ensemble_keys(bench.ensembles[name], part.rows) for name in requested if name in bench.ensembles}
    rows = {name: part.rows[name] for name in requested if name not in keys} | keys
    return ChosenRows(part.cache, rows, {name: tuned for name, tuned in part.tuned.items() if name in rows})


def rows_on_cache(bench: BenchSpec, cache: str, keys: dict[str, tuple[str, ...]], rows: Sequence[Row]) -> ChosenRows:
    """Return the chosen runs of some rows on one cache, without ensembles, given the keys of all rows or settings.

    Raises:
        StoreError: as in `chosen_rows`.
    """
    if not bench.tune:
        return ChosenRows(cache, {row.name: keys[row.name] for row in rows}, {})
    store = Path(bench.store)
    not_failed = {row.name: [key for key in keys[row.name] if failure_of(store, key) is None] for row in rows}
    require_runs(store, not_failed, cache)
    tried: dict[str, list[Tried]] = {}
    for row in rows:
        tried.setdefault(row.row, []).append(_tried(store, row, keys[row.name], bench.tune_by))
    tuned = {name: _decided(store, name, settings, bench.tune_by) for name, settings in tried.items()}
    return ChosenRows(cache, {name: settings.winner.keys for name, settings in tuned.items()}, tuned)


def _tried(store: Path, row: Row, keys: tuple[str, ...], by: TuneMetric) -> Tried:
    results = [failure_of(store, key) or _value(store, key, by) for key in keys]
    problems = [
        f"seed {s.seed}: {result}" for s, result in zip(row.specs, results, strict=True) if isinstance(result, str)
    ]
    known = [result for result in results if not isinstance(result, str)]
    value = None if problems else sum(value for value, _ in known) / len(known)
    nlls = [nll for _, nll in known if nll is not None]
    nll = sum(nlls) / len(nlls) if nlls else None
    return Tried(row.setting, row.changes, row.specs[0], keys, value, problems[0] if problems else "", nll)


def _value(store: Path, key: str, by: TuneMetric) -> tuple[float, float | None] | str:
    """Return the tuning metric and the NLL of a run, or why the run cannot be used."""
    evaluation = read_record(store, key).evaluations.get("select")
    value = None if evaluation is None else evaluation.metrics[by]
    if evaluation is None or value is None:
        return "there are no validation rows of a foreground class"
    # A head whose scores are NaN still predicts a class for each row, but its Brier score is NaN.
    brier = evaluation.metrics["brier"]
    is_number = brier is not None and not math.isnan(brier)
    return (value, evaluation.metrics["nll"]) if is_number else "its predictions are not numbers"


def _decided(store: Path, row: str, tried: Sequence[Tried], by: TuneMetric) -> Tuned:
    """Pick the winner; a setting without rivals needs finished runs, but no value."""
    able = [setting for setting in tried if setting.value is not None]
    if len(tried) == 1 and all(is_finished(store, key) for key in tried[0].keys):
        able = list(tried)
    if not able:
        several = f"none of the {len(tried)} settings of row {row!r} has one"
        found = several if len(tried) > 1 else f"the only setting of row {row!r} has none"
        raise StoreError(
            f"A row needs a setting with a {NAMES[by]} for every seed, but {found} ({tried[0].problem}). "
            "Tune over other values, or give the split a select share."
        )
    winner = max(able, key=lambda setting: setting.preference(by))
    tuned = Tuned(tuple(tried), winner, (), by)
    if tuned.is_tied:
        return tuned
    paths = (path for setting in tried for path in setting.changes)
    return replace(tuned, edges=edges(paths, [setting.spec for setting in tried], winner.spec))


def lines_of(tuned: Mapping[str, Tuned]) -> tuple[dict[str, Any], ...]:
    """Return one line per setting tried: row, setting, value, won, runs and problem."""
    return tuple(
        {
            "row": name,
            "setting": tried.name,
            "value": tried.value,
            "won": tried is settings.winner,
            "runs": list(tried.keys),
            "problem": tried.problem,
        }
        for name, settings in tuned.items()
        for tried in settings.tried
    )
