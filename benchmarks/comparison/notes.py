"""Notes on what limits the conclusions of a comparison."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from scipy.special import stdtrit

from frostbench.benchmarks.comparison.deltas import FEWEST_GROUPS
from frostbench.benchmarks.comparison.frame import FEWEST_CLASS_GROUPS, FEWEST_ROWS
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.significance import LEVEL, UNPAIRED_SHARE
from frostbench.benchmarks.runs.record import DataFacts, RunRecord, notes_by_seed
from frostbench.benchmarks.runs.tuning import Tuned
from frostbench.benchmarks.runs.tuning_notes import SETTLED, notes_on_tuning
from frostbench.benchmarks.settings.nouns import with_noun

SHOWN = 10
"""Most names that a note lists."""

ENDINGS = MappingProxyType({"stopped": "was stopped at epoch", "diverged": "diverged at epoch"})
"""Early endings of training that are reported."""


def notes_of(
    paired: Paired,
    role: str,
    unreadable: Sequence[str],
    tuned: Mapping[str, Tuned] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return notes on the data, the figures, the rows and the store, in this order.

    Args:
        paired: the compared rows; the first is the baseline.
        role: role of the evaluated rows.
        unreadable: records of the store that could not be read.
        tuned: tuning result of each row; empty if the bench does not tune.
    """
    notes = _on_data(paired.facts) + _on_figures(paired)
    notes += notes_on_tuning(tuned, len(paired.seeds), is_select=role == "select")
    # In cross-validation, the epoch of a held-out prediction was chosen on other folds.
    if role == "select" and not paired.facts.folds:
        notes += _on_selection(paired, tuned)
    notes += _on_rows(paired)
    if unreadable:
        notes.append(f"Records of the store that cannot be read and are not counted: {_named(unreadable)}")
    return tuple(notes)


def _named(names: Sequence[str]) -> str:
    extra = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {extra} more." if extra > 0 else ".")


def _on_data(data: DataFacts) -> list[str]:
    notes = list(data.warnings)
    notes += [f"Classes missing from {role}: {_named(names)}" for role, names in data.missing.items() if names]
    if data.forced:
        notes.append(
            f"Classes that kept a group for training because the split would have left none: {_named(data.forced)}"
        )
    if data.small:
        notes.append(f"Classes with too few rows for every fold of the split: {_named(data.small)}")
    return notes


def _on_figures(paired: Paired) -> list[str]:
    frame, compared = paired.frame, len(paired.records) - 1
    runs = [run for records in paired.records.values() for run in records]
    seeds, notes = len({run.seed for run in runs}), []
    if frame.n_groups < FEWEST_GROUPS:
        groups = with_noun(frame.n_groups, "group")
        verb = "is" if frame.n_groups == 1 else "are"
        notes.append(f"There {verb} only {groups}; verdicts need at least {FEWEST_GROUPS}.")
    if seeds == 1:
        notes.append("With one seed, the variation over seeds is unknown: verdicts need two seeds, preferably five.")
    elif compared and detectable(seeds, compared) > 2 and any(run.reason != "solved" for run in runs):
        current, with_more = detectable(seeds, compared), detectable(seeds + 2, compared)
        notes.append(
            f"With {seeds} seeds and {with_noun(compared, 'row')} to compare, a verdict needs a difference of at least "
            f"about {current:.1f} times the standard deviation of a run over seeds; with {seeds + 2} seeds, "
            f"{with_more:.1f} times."
        )
    thin = [paired.facts.class_names[c] for c in np.flatnonzero(frame.thin())]
    if thin:
        notes.append(
            f"Classes with fewer than {FEWEST_ROWS} evaluated rows or {FEWEST_CLASS_GROUPS} groups, whose figures are "
            f"mostly noise: {_named(thin)}"
        )
    return notes


def detectable(seeds: int, rows: int) -> float:
    """Return the smallest detectable difference, in standard deviations of a run over seeds, without group variance.

    Both rows are assumed to vary equally, so the degrees of freedom of both are added.

    >>> [round(detectable(seeds, 7), 1) for seeds in (3, 5, 7)]
    [4.4, 2.4, 1.8]
    """
    level = LEVEL * UNPAIRED_SHARE / rows
    return float(stdtrit(2 * (seeds - 1), 1 - level / 2)) * math.sqrt(2 / seeds)


def _on_selection(paired: Paired, tuned: Mapping[str, Tuned]) -> list[str]:
    """Note the rows that chose their epoch on the evaluated images, and those with another schedule or patience."""
    first_runs = {name: runs[0] for name, runs in paired.records.items()}
    gradient_trained = {
        name: run for name, run in first_runs.items() if run.gradient_norm is None and run.reason != "solved"
    }
    closed_form = [name for name in paired.records if name not in gradient_trained]
    notes = []
    # For tuned rows, another note says that all of them are optimistic, including closed-form ones.
    if gradient_trained and closed_form and not any(result.was_chosen for result in tuned.values()):
        notes.append(
            f"These rows chose their epoch on the images they are compared on and may look better than they are: "
            f"{_quoted(gradient_trained)}; {_quoted(closed_form)} did not. To avoid this bias, {SETTLED}."
        )
    # The members of an ensemble are rows themselves; the ensemble itself chose nothing.
    budgets = {name: _budgets(run, tuned.get(name)) for name, run in gradient_trained.items() if not run.members}
    others = [name for name, budget in budgets.items() if budget != next(iter(budgets.values()))]
    if others:
        notes.append(
            "Rows differ in schedule or patience, and a row with more epochs to choose from looks better on the images "
            f"that its epoch was chosen on: {_quoted(others)} against {next(iter(budgets))!r}. Use equal schedules, or "
            f"{SETTLED}."
        )
    return notes


def _budgets(run: RunRecord, tuned: Tuned | None) -> set[str]:
    """Return schedule and patience of a row, or those of all its settings if it is tuned."""
    specs = [run.full_spec] if tuned is None else [setting.spec.model_dump(mode="json") for setting in tuned.tried]
    return {f"{spec['train']['schedule']} {spec['train']['early_stop']['patience']}" for spec in specs}


def _quoted(names: Sequence[str] | dict[str, RunRecord]) -> str:
    return ", ".join(repr(name) for name in names)


def _on_rows(paired: Paired) -> list[str]:
    (base, predictions), *others = paired.predictions.items()
    notes = []
    for name, row_predictions in others:
        if all(run.same_as(other) for run, other in zip(row_predictions, predictions, strict=True)):
            notes.append(f"The predictions of {name!r} are identical to those of {base!r}: its options had no effect.")
    for name, records in paired.records.items():
        failed = [str(run.seed) for run in records if run.reason == "not_converged"]
        if failed:
            notes.append(f"The solver of {name!r} did not converge for seed {', '.join(failed)}.")
        runs = zip(records, paired.predictions[name], strict=True)
        damaged = [str(run.seed) for run, run_predictions in runs if not run_predictions.are_valid]
        if damaged:
            notes.append(f"The figures of {name!r} are omitted because seed {', '.join(damaged)} gave NaN.")
    for name, records in paired.records.items():
        reverted = [str(run.seed) for run in records if run.chosen.epochs[1:] == (0,)]
        if reverted:
            notes.append(
                f"No epoch of the second stage of {name!r} met second.max_head_loss, so the head of the first stage "
                f"was kept for seed {', '.join(reverted)}."
            )
        notes += [note for run in records if (note := _ending(name, run))]
        notes += [f"{name}, {note}." for note in notes_by_seed(records)]
    if len({run.data.train_counts for records in paired.records.values() for run in records}) > 1:
        notes.append("The runs were trained on different labels: the number of training rows per class differs.")
    if len({run.engine for records in paired.records.values() for run in records}) > 1:
        notes.append("The runs were trained with different engine versions.")
    return notes


def _ending(name: str, run: RunRecord) -> str:
    if run.reason not in ENDINGS:
        return ""
    epochs = max(run.epoch, len(run.curve.get("loss", ())))
    kept = f"; its best epoch, {run.epoch}, was kept" if run.epoch != epochs else ""
    return f"{name}, seed {run.seed}, {ENDINGS[run.reason]} {epochs}{kept}."
