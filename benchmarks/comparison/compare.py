"""Compare rows of runs with a baseline, paired on the same images over several seeds, with intervals and verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pandas as pd

from frostbench.benchmarks.comparison.deltas import BETTER as BETTER
from frostbench.benchmarks.comparison.deltas import CANNOT_TELL as CANNOT_TELL
from frostbench.benchmarks.comparison.deltas import WORSE as WORSE
from frostbench.benchmarks.comparison.deltas import chance_verdicts, table_of
from frostbench.benchmarks.comparison.notes import notes_of
from frostbench.benchmarks.comparison.paired import Paired, load
from frostbench.benchmarks.comparison.resampled import Resampled, resample
from frostbench.benchmarks.runs.all_runs import count_runs
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.runs.tuning import Tuned, lines_of
from frostbench.benchmarks.settings.parsing import SettingsError

Role = Literal["select", "test"]
ROLE_WORDS = {"select": "validation rows (select)", "test": "TEST rows"}
RESAMPLES = 2000
"""Default number of bootstrap resamples: a variance estimated from them has a standard error of 3 %, an interval's
width half that."""
UNTUNED: Mapping[str, Tuned] = MappingProxyType({})
"""Value for benches that do not tune their rows."""


@dataclass(frozen=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        title: title of the comparison.
        role: role of the evaluated rows.
        baseline: name of the row that the others are compared with.
        rows: row name to run keys, one per seed; the baseline comes first.
        table: one line per row and metric: row, metric, value (mean over seeds), seed_sd (standard deviation over seeds
            of the delta, or of the value for the baseline), delta, low, high (95 % interval of delta, not corrected for
            the number of rows), sd_groups and sd_seeds (standard errors of delta due to the sampling of groups and to
            the seeds), p (two-sided, not corrected), p_holm (Holm-corrected over the rows; decides the verdict),
            more_groups and more_seeds (estimated data for a verdict on an undecided difference: a factor for the groups
            and the total number of seeds), judged (whether a verdict was possible), verdict; NaN if there is no such
            figure.
        n_rows: number of evaluated rows.
        n_groups: number of groups among them.
        seeds: seeds of every row.
        resamples: number of bootstrap resamples.
        runs_seen: number of runs in the store that were evaluated on the same rows.
        notes: caveats about the data, the figures and the runs.
        settings: for a bench that tunes its rows, one entry per setting tried: row, setting, value (tuning metric on
            the validation rows, mean over seeds; None if the setting cannot win), won, runs and problem.
    """

    title: str
    role: Role
    baseline: str
    rows: dict[str, tuple[str, ...]]
    table: pd.DataFrame
    n_rows: int
    n_groups: int
    seeds: tuple[int, ...]
    resamples: int
    runs_seen: int
    notes: tuple[str, ...]
    settings: tuple[dict[str, Any], ...] = ()

    def line(self, row: str, metric: str) -> dict[str, Any]:
        """Return the table's line for a row and a metric, as values by column.

        Raises:
            SettingsError: the comparison has no such row or metric.
        """
        chosen = self.table[(self.table["row"] == row) & (self.table["metric"] == metric)]
        if chosen.empty:
            what, known, given = ("metric", self.metrics, metric) if row in self.rows else ("row", list(self.rows), row)
            raise SettingsError(f"A {what} of this comparison must be one of {known}, got {given!r}. Name one of them.")
        return {str(name): value for name, value in chosen.iloc[0].items()}

    @property
    def chance(self) -> tuple[float, int]:
        """Largest expected number of metrics with a verdict if all rows were equal, and the actual number."""
        return chance_verdicts(self.table)

    @property
    def metrics(self) -> list[str]:
        """Names of the compared metrics, in order."""
        return list(dict.fromkeys(self.table["metric"]))


def compare(
    store: Path,
    rows: Mapping[str, Sequence[str]],
    baseline: str | None = None,
    role: Role = "select",
    *,
    title: str = "comparison",
    resamples: int | None = None,
    seed: int = 0,
    tuned: Mapping[str, Tuned] = UNTUNED,
) -> Comparison:
    """Compare rows of runs with a baseline row; `frostbench.benchmarks.comparison.deltas` explains the verdicts.

    Args:
        store: the run store.
        rows: row name to run keys, one per seed, such as `chosen_rows(bench)[0].rows`.
        baseline: the row to compare with, or None for the first.
        role: role of the rows to evaluate on; use test only once everything else is decided.
        title: title of the comparison.
        resamples: number of bootstrap resamples, B; None means 2000.
        seed: random seed of the resamples.
        tuned: tuning result of each row, such as `chosen_rows(bench)[0].tuned`.

    Raises:
        StoreError: the baseline is not one of the rows, a run is missing, or the runs differ in images, splits, seeds,
            classes or background classes.
    """
    paired = load(store, baseline_first(rows, baseline), role)
    count = resamples or RESAMPLES
    drawn = resample(paired, count, seed)
    return comparison_of(store, paired, drawn, role, title=title, resamples=count, tuned=tuned)


def comparison_of(
    store: Path,
    paired: Paired,
    resampled: Resampled,
    role: Role,
    *,
    title: str,
    resamples: int,
    tuned: Mapping[str, Tuned] = UNTUNED,
) -> Comparison:
    """Build the comparison from runs that are already loaded and resampled; for the arguments see `compare`."""
    runs_seen, unreadable = count_runs(store, paired.facts.split)
    return Comparison(
        title=title,
        role=role,
        baseline=paired.baseline,
        rows=paired.rows,
        table=table_of(paired, resampled),
        n_rows=len(paired.frame.labels),
        n_groups=paired.frame.n_groups,
        seeds=paired.seeds,
        resamples=resamples,
        runs_seen=runs_seen,
        notes=notes_of(paired, role, unreadable, tuned),
        settings=lines_of(tuned),
    )


def baseline_first(rows: Mapping[str, Sequence[str]], baseline: str | None) -> dict[str, tuple[str, ...]]:
    """Return the rows with the baseline first; None means that the first row is the baseline.

    Raises:
        StoreError: the baseline is not one of the rows, or there are no rows.
    """
    base = next(iter(rows), None) if baseline is None else baseline
    if base is None or base not in rows:
        raise StoreError(f"The baseline must be one of the rows {list(rows)}, got {base!r}. Name one of them.")
    return {base: tuple(rows[base])} | {name: tuple(keys) for name, keys in rows.items() if name != base}
