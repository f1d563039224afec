"""Comparing rows of runs with a baseline: paired on the same rows, over seeds, with an interval and a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from benchmarks.bootstrap import (
    HIGHER_IS_BETTER,
    Floats,
    group_sums,
    grown,
    holm,
    interval,
    metrics_of,
    p_value,
    resampled_metrics,
    with_seed_spread,
)
from benchmarks.paired import Paired, load
from benchmarks.record import RunRecord
from benchmarks.store import StoreError, read_records

Role = Literal["select", "test"]
ROLE_WORDS = {"select": "validation rows (select)", "test": "TEST rows"}
BETTER, WORSE, CANNOT_TELL = "better", "worse", "can't tell"
LEVEL = 0.05
FEWEST_GROUPS = 20
"""With fewer groups than this the bootstrap's interval is too narrow for a verdict."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        title: what was compared.
        role: whose rows it was made on.
        baseline: name of the row that the others are compared with.
        rows: row name to run keys, one per seed; the baseline first.
        table: one line per row and metric: row, metric, value (mean over seeds), seed_sd (of the delta, or of the
            value for the baseline), delta, low, high (95 %), p and p_holm (over groups), p_seeds (over groups and
            seeds), verdict.
        n_rows: evaluated rows.
        n_groups: their groups.
        seeds: seeds of every row.
        resamples: bootstrap resamples.
        runs_seen: runs of the store that were evaluated on the same rows.
        notes: what a reader must know of it.
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

    def line(self, row: str, metric: str) -> dict[str, Any]:
        """The line of the table for one row and metric."""
        chosen = self.table[(self.table["row"] == row) & (self.table["metric"] == metric)]
        return {str(name): value for name, value in chosen.iloc[0].items()}

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
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare rows of runs with a baseline row.

    The difference of a metric is averaged over seeds inside each of the resamples of the groups; its interval is the
    percentile one. A verdict needs enough groups, a p below 0.05 after Holm's correction over the rows, and a
    difference that also stands out from the spread over seeds (`bootstrap.with_seed_spread`).

    Args:
        store: the run store.
        rows: row name to run keys, one per seed, such as `read_bench(store, name)[0].rows`.
        baseline: the row to compare with; None means the first.
        role: whose rows are compared; test only when everything else is decided.
        title: what the table is called.
        resamples: how many, B.
        seed: of the resamples.

    Raises:
        StoreError: a run is missing, or runs are of other tables, splits, seeds or background classes.
    """
    base = next(iter(rows)) if baseline is None else baseline
    if base not in rows:
        raise StoreError(f"the baseline is one of the rows {list(rows)}, however: {base!r} came. Name one of them.")
    ordered = {base: tuple(rows[base])} | {name: tuple(keys) for name, keys in rows.items() if name != base}
    loaded = load(store, ordered, role)
    first = loaded.records[base][0].data
    everything = read_records(store)
    same = (everything["table"] == first.table) & (everything["split"] == first.split)
    return Comparison(
        title=title,
        role=role,
        baseline=base,
        rows=ordered,
        table=_table(loaded, resamples, seed),
        n_rows=len(loaded.frame.labels),
        n_groups=loaded.frame.n_groups,
        seeds=tuple(record.seed for record in loaded.records[base]),
        resamples=resamples,
        runs_seen=int(same.sum()),
        notes=_notes(loaded),
    )


def _table(loaded: Paired, resamples: int, seed: int) -> pd.DataFrame:
    frame, names = loaded.frame, list(loaded.answers)
    sums = [group_sums(frame, run) for runs in loaded.answers.values() for run in runs]
    per_row = len(sums) // len(names)
    ones = np.ones((1, frame.n_groups))
    points = [metrics_of(frame, run, ones) for run in sums]
    drawn = resampled_metrics(frame, sums, resamples, seed)
    enough = frame.n_groups >= FEWEST_GROUPS
    lines = []
    for metric in points[0]:
        value = np.array([found[metric][0] for found in points]).reshape(len(names), per_row)
        moved = np.stack([found[metric] for found in drawn]).reshape(len(names), per_row, resamples).mean(1)
        cells = [_base_cell(value[0])]
        for row in range(1, len(names)):
            generator = np.random.default_rng([seed, row])
            cells.append(_cell(moved[row] - moved[0], value[row], value[row] - value[0], frame.n_groups, generator))
        adjusted = [float("nan"), *holm([cell["p"] for cell in cells[1:]])]
        for name, cell, p in zip(names, cells, adjusted, strict=True):
            known = enough and _spread_is_known(loaded.records[name] + loaded.records[names[0]])
            certain = known and max(p, cell["p_seeds"]) < LEVEL
            cell |= {"p_holm": p, "verdict": "" if name == names[0] else _verdict(metric, cell["delta"], certain)}
            lines.append({"row": name, "metric": metric} | cell)
    return pd.DataFrame(lines)


def _base_cell(values: Floats) -> dict[str, Any]:
    empty = dict.fromkeys(("delta", "low", "high", "p", "p_seeds"), float("nan"))
    return {"value": float(values.mean()), "seed_sd": _sd(values)} | empty


def _cell(
    deltas: Floats, values: Floats, seed_deltas: Floats, n_groups: int, generator: np.random.Generator
) -> dict[str, Any]:
    point = float(seed_deltas.mean())
    low, high = interval(deltas)
    wide = grown(deltas, point, n_groups)
    tails = {"p": p_value(wide), "p_seeds": p_value(with_seed_spread(wide, seed_deltas, generator))}
    found = {"value": float(values.mean()), "seed_sd": _sd(seed_deltas), "delta": point}
    return found | {"low": low, "high": high} | tails


def _sd(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else float("nan")


def _spread_is_known(runs: Sequence[RunRecord]) -> bool:
    """Whether the spread over seeds can be judged: there are several, or no run depends on its seed."""
    return len({run.seed for run in runs}) > 1 or all(run.reason == "solved" for run in runs)


def _verdict(metric: str, delta: float, certain: bool) -> str:
    if not certain:
        return CANNOT_TELL
    return BETTER if (delta > 0) == HIGHER_IS_BETTER[metric] else WORSE


def _notes(loaded: Paired) -> tuple[str, ...]:
    frame, runs = loaded.frame, [run for records in loaded.records.values() for run in records]
    notes = list(runs[0].data.warnings)
    if frame.n_groups < FEWEST_GROUPS:
        notes.append(f"There are {frame.n_groups} groups, fewer than {FEWEST_GROUPS}: no verdicts are given.")
    if len({run.seed for run in runs}) == 1:
        notes.append("There is one seed, so the spread over seeds is unknown: verdicts need two seeds, better three.")
    seen = np.flatnonzero(np.bincount(frame.labels, minlength=len(frame.train_counts)))
    thin = [c for c in seen if len(np.unique(frame.groups[frame.labels == c])) < 3 or (frame.labels == c).sum() < 5]
    if thin:
        names = ", ".join(runs[0].data.class_names[c] for c in thin[:10])
        notes.append(
            f"{len(thin)} classes have fewer than 5 rows or 3 groups here, so their figures are noise: {names}."
        )
    for name, records in loaded.records.items():
        failed = [str(run.seed) for run in records if run.reason == "not_converged"]
        if failed:
            notes.append(f"The solver of {name!r} did not converge for seed {', '.join(failed)}.")
    if len({run.engine for run in runs}) > 1:
        notes.append("The runs are of different engine versions.")
    return tuple(notes)
