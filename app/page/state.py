"""The state of the page that follows from its form, without gradio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frostbench.app.page.form import CACHE_ROW, SIDES, SPLIT_ROWS, Form
from frostbench.app.rows import Row
from frostbench.app.sides import (
    ROWS,
    Difference,
    bench_of,
    differences,
    disabled,
    matching_rules,
    nearest_preset,
    run_of,
    switches,
)
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.training.run import RunSpec

MOST_SEEDS = 50


@dataclass(frozen=True)
class View:
    """The state of both sides that follows from a form.

    Attributes:
        runs: run of each side, or None if a value is not allowed.
        errors: reason why a side cannot be trained; empty if it can.
        warnings: warnings about the combination of options of each side.
        presets: nearest preset of each side, and whether the side equals it.
        switches: state of each side's master switches.
        differences: rows in which the sides differ, including the cache.
        disabled: rows that a side cannot use, with the reason.
        inactive: keys of rows that do not exist for a side's selected kinds.
    """

    runs: dict[str, RunSpec | None]
    errors: dict[str, str]
    warnings: dict[str, tuple[str, ...]]
    presets: dict[str, tuple[str, bool]]
    switches: dict[str, dict[str, bool]]
    differences: list[Difference]
    disabled: dict[str, dict[str, str]]
    inactive: dict[str, frozenset[str]]


def view(form: Form, workspace: Workspace) -> View:
    """Compute the state of a form; only files of the workspace are read."""
    parts = {side: _side(form.sides[side], workspace) for side in SIDES}
    a, b = (form.sides[side] for side in SIDES)
    return View(
        runs={side: part.run for side, part in parts.items()},
        errors={side: part.error or _shared_error(form, workspace) for side, part in parts.items()},
        warnings={side: part.warnings for side, part in parts.items()},
        presets={side: part.preset for side, part in parts.items()},
        switches={side: part.switches for side, part in parts.items()},
        differences=differences(a, b, (CACHE_ROW, *ROWS)),
        disabled={side: part.disabled for side, part in parts.items()},
        inactive={side: frozenset(row.key for row in ROWS if not row.is_active(form.sides[side])) for side in SIDES},
    )


@dataclass(frozen=True)
class _Side:
    run: RunSpec | None
    error: str
    warnings: tuple[str, ...]
    preset: tuple[str, bool]
    switches: dict[str, bool]
    disabled: dict[str, str]


def check_files(rows: Sequence[Row], values: Mapping[str, Any], workspace: Workspace) -> None:
    """Check that the page may read the files of the active rows, before a spec is built, which reads them.

    Raises:
        SettingsError: the page may not read one of the files.
    """
    for row in rows:
        if row.is_file and row.is_active(values) and values.get(row.key):
            try:
                workspace.file(str(values[row.key]))
            except SettingsError as error:
                raise SettingsError(f"{row.label} ({row.path}): {error}") from error


def runs_of(form: Form, workspace: Workspace) -> tuple[dict[str, RunSpec | None], dict[str, str]]:
    """Return each side's run (None if a value is not allowed) and the reason why it cannot be trained, or ""."""
    results = {side: _run(form.sides[side], workspace) for side in SIDES}
    runs = {side: run for side, (run, _) in results.items()}
    return runs, {side: error or _shared_error(form, workspace) for side, (_, error) in results.items()}


def _run(values: Mapping[str, Any], workspace: Workspace) -> tuple[RunSpec | None, str]:
    try:
        check_files(ROWS, values, workspace)
        run = run_of(values)
    except ValueError as error:
        return None, str(error).removesuffix("\nSee `frostbench options`.")
    refused = "; ".join(rule.sentence for rule in matching_rules(run, ("refuse",)))
    return run, refused or ("" if values.get("cache") else "choose a cache")


def _side(values: Mapping[str, Any], workspace: Workspace) -> _Side:
    run, error = _run(values, workspace)
    if run is None:
        return _Side(None, error, (), ("", False), {}, {})
    return _Side(
        run=run,
        error=error,
        warnings=tuple(rule.sentence for rule in matching_rules(run, ("no effect", "warn"))),
        preset=nearest_preset(run),
        switches={switch.name: switch.is_on(run) for switch in switches()},
        disabled=disabled(values),
    )


def _shared_error(form: Form, workspace: Workspace) -> str:
    if not isinstance(form.seeds, int) or not 1 <= form.seeds <= MOST_SEEDS:
        return f"Seeds must be a whole number from 1 to {MOST_SEEDS}, got {form.seeds!r}."
    try:
        check_files(SPLIT_ROWS, form.split, workspace)
        form.split_changes()
    except ValueError as error:
        return f"split: {error}".removesuffix("\nSee `frostbench options`.")
    return ""


def bench_for(form: Form, run: RunSpec, side: str, workspace: Workspace) -> Tree:
    """Build the one-row bench that trains a side.

    Raises:
        SettingsError: the page may not use the side's cache, or a value of the split is not allowed.
    """
    cache = str(workspace.cache(form.sides[side]["cache"]))
    return bench_of(cache, run, range(form.seeds), str(workspace.store), form.split_changes(), side)
