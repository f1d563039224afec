"""What the page's controls hold, and all that follows from it; no gradio here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.forms import Values, spec_of, values_of
from frostbench.app.rows import Row, rows_of
from frostbench.app.sides import (
    ROWS,
    Changed,
    Difference,
    bench_of,
    differences,
    disabled,
    met,
    nearest_preset,
    run_of,
    switches,
    with_preset,
)
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

SIDES = ("A", "B")
SPLIT_ROWS = rows_of(SplitSpec)
MOST_SEEDS = 50
CACHE_ROW = Row(
    "cache",
    "cache",
    "Cache",
    "The images' vectors. Runs on two caches are compared image by image where both hold the same images.",
    "choice",
)
"""The cache as a row like any other; its value stands beside a side's options under this key."""


@dataclass(frozen=True)
class Form:
    """The values of all controls.

    Attributes:
        sides: for A and B, the control values by row key, and the cache under "cache".
        seeds: how many seeds both sides are trained with, 0 first.
        split: the values of the split's rows; the split is the same for both sides.
        switched: for each side, the rows that a master switch changed when it was switched on, by its name.
    """

    sides: Mapping[str, Values]
    seeds: int
    split: Values
    switched: Mapping[str, Mapping[str, Changed]] = field(default_factory=dict)

    def with_side(self, side: str, values: Mapping[str, Any]) -> "Form":
        """The form with other values on one side."""
        return replace(self, sides={**self.sides, side: {**self.sides[side], **values}})

    def with_switched(self, side: str, switched: Mapping[str, Changed]) -> "Form":
        """The form that remembers what the switches of one side have changed."""
        return replace(self, switched={**self.switched, side: switched})

    def as_tree(self) -> Tree:
        """The form as JSON."""
        return {"sides": {side: dict(values) for side, values in self.sides.items()}} | {
            "seeds": self.seeds,
            "split": dict(self.split),
            "switched": {side: dict(names) for side, names in self.switched.items()},
        }

    def split_changes(self) -> Tree:
        """The options of the split that differ from their default.

        Raises:
            SettingsError: a share is not allowed.
        """
        found = canonical(spec_of(SplitSpec, SPLIT_ROWS, self.split))
        return {name: value for name, value in found.items() if name != "kind"}


def first_form(workspace: Workspace) -> Form:
    """What a first visit shows: the baseline against the full preset on the first cache."""
    cache = next(iter(workspace.cache_names()), None)
    sides = {
        side: {"cache": cache} | with_preset({}, preset)
        for side, preset in zip(SIDES, ("baseline", "full"), strict=True)
    }
    return Form(sides, 3, values_of(SPLIT_ROWS, SplitSpec()))


def read_form(tree: Any) -> Form:
    """The form that a page sent.

    Raises:
        SettingsError: a row is missing, as in a page that was opened before an update, or a value is nested too deeply.
    """
    _check_depth(tree)
    try:
        sides = {side: {row.key: tree["sides"][side][row.key] for row in (CACHE_ROW, *ROWS)} for side in SIDES}
        split = {row.key: tree["split"][row.key] for row in SPLIT_ROWS}
        return Form(sides, tree["seeds"], split, _switched(tree))
    except (KeyError, TypeError) as error:
        raise SettingsError(
            f"a page must send every option that there is, however: {error} is missing. Reload the page."
        ) from error


def restored(tree: Any, workspace: Workspace) -> Form:
    """The form that a browser kept, as far as its rows and caches still exist; the rest is as on a first visit."""
    _check_depth(tree)
    form, names = first_form(workspace), workspace.cache_names()
    if not isinstance(tree, dict) or not isinstance(tree.get("sides"), dict):
        return form
    for side in SIDES:
        kept = tree["sides"].get(side)
        for row in (CACHE_ROW, *ROWS) if isinstance(kept, dict) else ():
            if row.key in kept and (row.key != "cache" or kept["cache"] in names):
                form = form.with_side(side, {row.key: kept[row.key]})
    split = tree["split"] if isinstance(tree.get("split"), dict) else {}
    split = {key: split.get(key, value) for key, value in form.split.items()}
    return Form(form.sides, tree.get("seeds", form.seeds), split, _switched(tree))


def _check_depth(tree: Any) -> None:
    if is_too_deep(tree):
        raise SettingsError(
            f"values of a page are nested {DEEPEST} deep at most, however: deeper ones came. Reload the page."
        )


def _switched(tree: Mapping[str, Any]) -> dict[str, dict[str, Changed]]:
    """What the switches have changed by what a page sent, without what does not read as that."""
    found: dict[str, dict[str, Changed]] = {}
    for side, names in _items(tree.get("switched")):
        for name, rows in _items(names):
            pairs = {key: pair for key, pair in _items(rows) if isinstance(pair, list) and len(pair) == 2}
            found.setdefault(side, {})[name] = pairs
    return {side: names for side, names in found.items() if side in SIDES}


def _items(tree: Any) -> list[tuple[str, Any]]:
    return list(tree.items()) if isinstance(tree, dict) else []


@dataclass(frozen=True)
class View:
    """All that follows from a form.

    Attributes:
        runs: the run of each side, None where a value is not allowed.
        errors: for each side, why it cannot be trained; empty where it can.
        warnings: for each side, what is to be said about its combination.
        presets: for each side, the nearest preset and whether it is that one.
        switches: for each side, which master switches are on.
        differences: rows in which the sides differ, the cache among them.
        disabled: for each side, rows out of use and why.
        inactive: for each side, keys of rows that do not exist under its kinds.
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
    """What follows from a form, in a workspace whose files alone are read."""
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
    """Refuse files that the page may not read, before a spec is made of the values, which reads them.

    Raises:
        SettingsError: there is one among the rows that are in use.
    """
    for row in rows:
        if row.is_file and row.is_active(values) and values.get(row.key):
            try:
                workspace.file(str(values[row.key]))
            except SettingsError as error:
                raise SettingsError(f"{row.label} ({row.path}): {error}") from error


def runs_of(form: Form, workspace: Workspace) -> tuple[dict[str, RunSpec | None], dict[str, str]]:
    """For each side its run, None where a value is not allowed, and why it cannot be trained, empty where it can."""
    found = {side: _run(form.sides[side], workspace) for side in SIDES}
    runs, errors = ({side: pair[i] for side, pair in found.items()} for i in (0, 1))
    return runs, {side: error or _shared_error(form, workspace) for side, error in errors.items()}


def _run(values: Mapping[str, Any], workspace: Workspace) -> tuple[RunSpec | None, str]:
    try:
        check_files(ROWS, values, workspace)
        run = run_of(values)
    except ValueError as error:
        return None, str(error).removesuffix("\nSee `frostbench options`.")
    refused = "; ".join(rule.sentence for rule in met(run, ("refuse",)))
    return run, refused or ("" if values.get("cache") else "choose a cache")


def _side(values: Mapping[str, Any], workspace: Workspace) -> _Side:
    run, error = _run(values, workspace)
    if run is None:
        return _Side(None, error, (), ("", False), {}, {})
    return _Side(
        run=run,
        error=error,
        warnings=tuple(rule.sentence for rule in met(run, ("no effect", "warn"))),
        preset=nearest_preset(run),
        switches={switch.name: switch.is_on(run) for switch in switches()},
        disabled=disabled(values),
    )


def _shared_error(form: Form, workspace: Workspace) -> str:
    if not isinstance(form.seeds, int) or not 1 <= form.seeds <= MOST_SEEDS:
        return f"seeds must be a whole number from 1 to {MOST_SEEDS}, however: {form.seeds!r} came"
    try:
        check_files(SPLIT_ROWS, form.split, workspace)
        form.split_changes()
    except ValueError as error:
        return f"split: {error}".removesuffix("\nSee `frostbench options`.")
    return ""


def bench_for(form: Form, run: RunSpec, side: str, workspace: Workspace) -> Tree:
    """The bench of one row that trains a side.

    Raises:
        SettingsError: the side's cache is none that the page may use, or a share of the split is not allowed.
    """
    cache = str(workspace.cache(form.sides[side]["cache"]))
    return bench_of(cache, run, seeds_of(form), str(workspace.store), form.split_changes(), side)


def seeds_of(form: Form) -> Sequence[int]:
    """The seeds of both sides."""
    return tuple(range(form.seeds))
