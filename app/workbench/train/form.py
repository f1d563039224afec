"""The form: the values of all controls of the page."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.forms import Values, spec_of
from frostbench.app.rows import Row, rows_of
from frostbench.app.sides import ROWS, Changed, Switch, bench_of, changed_rows, undo_changes, with_switch
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

SIDES = ("A", "B")
MOST_SEEDS = 50
SPLIT_ROWS = rows_of(SplitSpec)
CACHE_ROW = Row(
    "cache",
    "cache",
    "Cache",
    "The cache with the vectors. Runs on different caches are compared image by image if both hold the same images.",
    "choice",
)
"""The cache as a row of the form; a side's values hold it under this key."""


@dataclass(frozen=True)
class Form:
    """The values of all controls.

    Attributes:
        sides: for A and B, the control values by row key, and the cache under "cache".
        seeds: number of seeds both sides are trained with, starting from 0.
        split: values of the split's rows, shared by both sides.
        switched: for each side, the rows that each master switch changed when it was turned on.
    """

    sides: Mapping[str, Values]
    seeds: int
    split: Values
    switched: Mapping[str, Mapping[str, Changed]] = field(default_factory=dict)

    def with_side(self, side: str, values: Mapping[str, Any]) -> "Form":
        """Return the form with some values of one side replaced."""
        return replace(self, sides={**self.sides, side: {**self.sides[side], **values}})

    def with_switched(self, side: str, switched: Mapping[str, Changed]) -> "Form":
        """Return the form with the record of one side's switches replaced."""
        return replace(self, switched={**self.switched, side: switched})

    def split_changes(self) -> Tree:
        """Return the options of the split that differ from their default.

        Raises:
            SettingsError: a value of the split is not allowed.
        """
        options = canonical(spec_of(SplitSpec, SPLIT_ROWS, self.split))
        return {name: value for name, value in options.items() if name != "kind"}


def read_form(tree: Any) -> Form:
    """Parse the form that a page sent.

    Raises:
        SettingsError: a row is missing, as from a page opened before an update, or a value is nested too deeply.
    """
    _check_depth(tree)
    try:
        sides = {side: {row.key: tree["sides"][side][row.key] for row in (CACHE_ROW, *ROWS)} for side in SIDES}
        split = {row.key: tree["split"][row.key] for row in SPLIT_ROWS}
        return Form(sides, tree["seeds"], split, _read_switched(tree))
    except (KeyError, TypeError) as error:
        raise SettingsError(f"The page did not send the option {error}. Reload the page.") from error


def _check_depth(tree: Any) -> None:
    if is_too_deep(tree):
        raise SettingsError(f"The page sent values nested more than {DEEPEST} levels deep. Reload the page.")


def _read_switched(tree: Mapping[str, Any]) -> dict[str, dict[str, Changed]]:
    """Return the record of the switches that a page sent, without malformed parts."""
    switched: dict[str, dict[str, Changed]] = {}
    for side, names in _items(tree.get("switched")):
        for name, rows in _items(names):
            pairs = {key: pair for key, pair in _items(rows) if isinstance(pair, list) and len(pair) == 2}
            switched.setdefault(side, {})[name] = pairs
    return {side: names for side, names in switched.items() if side in SIDES}


def _items(tree: Any) -> list[tuple[str, Any]]:
    return list(tree.items()) if isinstance(tree, dict) else []


def set_switch(form: Form, side: str, switch: Switch, on: bool) -> Form:
    """Return the form with a switch of a side set; turning it off restores what turning it on had changed."""
    before, record = form.sides[side], dict(form.switched.get(side, {}))
    after = with_switch(before, switch, on)
    if on:
        record[switch.name] = changed_rows(before, after)
        return form.with_side(side, after).with_switched(side, record)
    changed = record.pop(switch.name, {})
    return form.with_side(side, after | undo_changes(before, changed)).with_switched(side, record)


def training_share(form: Form) -> float:
    """Return the share of training rows that a form's split asks for. Raises SettingsError for invalid values."""
    return 1 - sum(spec_of(SplitSpec, SPLIT_ROWS, form.split).shares.values())


def bench_for(form: Form, run: RunSpec, side: str, workspace: Workspace) -> Tree:
    """Build the one-row bench that trains a side.

    Raises:
        SettingsError: the page may not use the side's cache, or a value of the split is not allowed.
    """
    cache = str(workspace.cache(form.sides[side]["cache"]))
    return bench_of(cache, run, range(form.seeds), str(workspace.store), form.split_changes(), side)
