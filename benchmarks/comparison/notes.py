"""What a reader must know of a comparison before trusting it."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from scipy.special import stdtrit

from frostbench.benchmarks.comparison.bootstrap import FEWEST_CLASS_GROUPS, FEWEST_ROWS
from frostbench.benchmarks.comparison.deltas import FEWEST_GROUPS
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.significance import ALONE_SHARE, LEVEL
from frostbench.benchmarks.runs.record import DataFacts, RunRecord, notes_by_seed
from frostbench.benchmarks.runs.tuning import Tuned
from frostbench.benchmarks.runs.tuning_notes import SETTLED, notes_on_tuning

SHOWN = 10
"""Names that one note lists."""

ENDINGS = MappingProxyType({"stopped": "was stopped at epoch", "diverged": "diverged at epoch"})
"""Ways for training to end early that a reader must know of."""


def notes_of(
    paired: Paired,
    role: str,
    unreadable: Sequence[str],
    tuned: Mapping[str, Tuned] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Notes on the data, the figures, the rows and the store, in this order.

    Args:
        paired: the compared rows; the first is the baseline.
        role: whose rows they were compared on.
        unreadable: records of the store that could not be counted.
        tuned: what became of the settings of each row; empty where the bench does not tune.
    """
    notes = _on_data(paired.facts) + _on_figures(paired)
    notes += notes_on_tuning(tuned, len(paired.seeds), is_select=role == "select")
    # Held-out predictions of cross-validation are made at epochs that other folds chose.
    if role == "select" and not paired.facts.folds:
        notes += _on_optimism(paired, tuned)
    notes += _on_rows(paired)
    if unreadable:
        notes.append(f"{len(unreadable)} records of the store cannot be read and are not counted: {_named(unreadable)}")
    return tuple(notes)


def _named(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more." if more > 0 else ".")


def _on_data(data: DataFacts) -> list[str]:
    notes = list(data.warnings)
    notes += [f"classes missing from {role}: {_named(names)}" for role, names in data.missing.items() if names]
    if data.forced:
        notes.append(f"Classes that got a group back for training, since all were cut away: {_named(data.forced)}")
    if data.small:
        notes.append(f"Classes with too few rows for every fold of the split: {_named(data.small)}")
    return notes


def _on_figures(paired: Paired) -> list[str]:
    frame, compared = paired.frame, len(paired.records) - 1
    runs = [run for records in paired.records.values() for run in records]
    seeds, notes = len({run.seed for run in runs}), []
    if frame.n_groups < FEWEST_GROUPS:
        notes.append(f"There are {frame.n_groups} groups, fewer than {FEWEST_GROUPS}: no verdicts are given.")
    if seeds == 1:
        notes.append("There is one seed, so the spread over seeds is unknown: verdicts need two seeds, better five.")
    elif compared and needed(seeds, compared) > 2 and any(run.reason != "solved" for run in runs):
        now, then = needed(seeds, compared), needed(seeds + 2, compared)
        rows = "1 row" if compared == 1 else f"{compared} rows"
        notes.append(
            f"With {seeds} seeds and {rows} to compare, a verdict needs a difference of about {now:.1f} times the "
            f"spread of one run over seeds (sd); with {seeds + 2} seeds {then:.1f}."
        )
    thin = [paired.facts.class_names[c] for c in np.flatnonzero(frame.thin())]
    if thin:
        notes.append(
            f"{len(thin)} classes have fewer than {FEWEST_ROWS} rows or {FEWEST_CLASS_GROUPS} groups here, so their "
            f"figures are noise: {_named(thin)}"
        )
    return notes


def needed(seeds: int, rows: int) -> float:
    """By how many times the sd of one run over seeds a difference must exceed 0, were there no doubt over groups.

    Both rows spread alike, so the degrees of freedom are those of both.

    >>> [round(needed(seeds, 7), 1) for seeds in (3, 5, 7)]
    [4.4, 2.4, 1.8]
    """
    level = LEVEL * ALONE_SHARE / rows
    return float(stdtrit(2 * (seeds - 1), 1 - level / 2)) * math.sqrt(2 / seeds)


def _on_optimism(paired: Paired, tuned: Mapping[str, Tuned]) -> list[str]:
    """Which rows chose their epoch on the rows they are compared on, and which of them had more to choose from."""
    first = {name: runs[0] for name, runs in paired.records.items()}
    stepped = {name: run for name, run in first.items() if run.gradient_norm is None and run.reason != "solved"}
    solved = [name for name in paired.records if name not in stepped]
    notes = []
    # Of tuned rows another note says that they are optimistic, solved ones included.
    if stepped and solved and not any(one.was_chosen for one in tuned.values()):
        notes.append(
            f"These rows chose their epoch on the very rows compared here and may look better than they are: "
            f"{_quoted(stepped)}; {_quoted(solved)} did not: {SETTLED}."
        )
    # The members of an ensemble are rows themselves; it chose nothing besides.
    budgets = {name: _budgets(run, tuned.get(name)) for name, run in stepped.items() if not run.members}
    others = [name for name, budget in budgets.items() if budget != next(iter(budgets.values()))]
    if others:
        notes.append(
            f"Rows differ in schedule or patience, and more epochs to choose from look better on these rows: "
            f"{_quoted(others)} against {next(iter(budgets))!r}; equal schedules avoid that, or {SETTLED}."
        )
    return notes


def _budgets(run: RunRecord, tuned: Tuned | None) -> set[str]:
    """Schedule and patience of a row, or all those that its settings could choose from."""
    specs = [run.full_spec] if tuned is None else [one.spec.model_dump(mode="json") for one in tuned.tried]
    return {f"{spec['train']['schedule']} {spec['train']['early_stop']['patience']}" for spec in specs}


def _quoted(names: Sequence[str] | dict[str, RunRecord]) -> str:
    return ", ".join(repr(name) for name in names)


def _on_rows(paired: Paired) -> list[str]:
    (base, answers), *others = paired.answers.items()
    notes = []
    for name, own in others:
        if all(one.same_as(other) for one, other in zip(own, answers, strict=True)):
            notes.append(f"Row {name!r} gave exactly the answers of {base!r}: its options had no effect.")
    for name, records in paired.records.items():
        failed = [str(run.seed) for run in records if run.reason == "not_converged"]
        if failed:
            notes.append(f"The solver of {name!r} did not converge for seed {', '.join(failed)}.")
        runs = zip(records, paired.answers[name], strict=True)
        damaged = [str(run.seed) for run, said in runs if not said.are_numbers]
        if damaged:
            notes.append(f"The figures of {name!r} are left out, for seed {', '.join(damaged)} gave NaN.")
    for name, records in paired.records.items():
        unkept = [str(run.seed) for run in records if run.chosen.epochs[1:] == (0,)]
        if unkept:
            notes.append(
                f"No epoch of the second stage of {name!r} kept to second.max_head_loss, so the head is that of the "
                f"first stage, for seed {', '.join(unkept)}."
            )
        notes += [told for run in records if (told := _on_ending(name, run))]
        notes += [f"{name}, {told}." for told in notes_by_seed(records)]
    if len({run.data.train_counts for records in paired.records.values() for run in records}) > 1:
        notes.append("The runs were trained on other labels: their classes have other numbers of training rows.")
    if len({run.engine for records in paired.records.values() for run in records}) > 1:
        notes.append("The runs are of different engine versions.")
    return notes


def _on_ending(name: str, run: RunRecord) -> str:
    """What to say of a run that ended early; empty where it did not."""
    if run.reason not in ENDINGS:
        return ""
    epochs = max(run.epoch, len(run.curve.get("loss", ())))
    kept = f"; its best epoch, {run.epoch}, is kept" if run.epoch != epochs else ""
    return f"{name}, seed {run.seed}, {ENDINGS[run.reason]} {epochs}{kept}."
