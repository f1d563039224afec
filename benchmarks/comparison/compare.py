"""Comparing rows of runs with a baseline: paired on the same rows, over seeds, with an interval and a verdict."""

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

Role = Literal["select", "test"]
ROLE_WORDS = {"select": "validation rows (select)", "test": "TEST rows"}
RESAMPLES = 2000
"""Enough for a variance: by chance it is off by 3 %, and a width by half of that, however many rows there are."""
UNTUNED: Mapping[str, Tuned] = MappingProxyType({})
"""Of a bench that does not tune its rows."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        title: what was compared.
        role: whose rows it was made on.
        baseline: name of the row that the others are compared with.
        rows: row name to run keys, one per seed; the baseline first.
        table: one line per row and metric: row, metric, value (mean over seeds), seed_sd (of the delta, or of the
            value for the baseline), delta, low, high (95 %, of the row by itself), sd_groups and sd_seeds (what the
            choice of groups and the seeds add to the doubt about delta), p (over both, of the row by itself), p_holm
            (corrected over the rows; the verdict's), more_groups and more_seeds (what would settle a difference that
            cannot be told: a factor and a number), judged (whether a verdict could be given), verdict; NaN where
            there is no such figure.
        n_rows: evaluated rows.
        n_groups: their groups.
        seeds: seeds of every row.
        resamples: bootstrap resamples.
        runs_seen: runs of the store that were evaluated on the same rows.
        notes: what a reader must know of it.
        settings: of a bench that tunes its rows, one line per setting tried: row, setting, value (macro F1 on the
            selection rows, mean over seeds; None where it cannot win), won, runs and problem.
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
        """The line of the table for one row and metric."""
        chosen = self.table[(self.table["row"] == row) & (self.table["metric"] == metric)]
        return {str(name): value for name, value in chosen.iloc[0].items()}

    @property
    def chance(self) -> tuple[float, int]:
        """At most how many metrics would have a verdict if all rows were equal, and how many have one."""
        return chance_verdicts(self.table)

    @property
    def metrics(self) -> list[str]:
        """The metrics that could be compared, in order."""
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
        baseline: the row to compare with; None means the first.
        role: whose rows are compared; test only when everything else is decided.
        title: what the table is called.
        resamples: how many, B; None takes 2000.
        seed: of the resamples.
        tuned: what became of the settings of each row, such as `chosen_rows(bench)[0].tuned`.

    Raises:
        StoreError: a run is missing, or runs are of other images, splits, seeds, classes or background classes.
    """
    paired = load(store, ordered(rows, baseline), role)
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
    """The comparison of runs that were read and resampled already; the arguments are those of `compare`."""
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


def ordered(rows: Mapping[str, Sequence[str]], baseline: str | None) -> dict[str, tuple[str, ...]]:
    """The rows, the baseline first; None means that it is the first already.

    Raises:
        StoreError: the baseline is none of the rows, or there are none.
    """
    base = next(iter(rows), None) if baseline is None else baseline
    if base is None or base not in rows:
        raise StoreError(f"the baseline is one of the rows {list(rows)}, however: {base!r} came. Name one of them.")
    return {base: tuple(rows[base])} | {name: tuple(keys) for name, keys in rows.items() if name != base}
