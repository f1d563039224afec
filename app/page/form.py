"""The form: the values of all controls of the page."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.forms import Values, spec_of, values_of
from frostbench.app.rows import Row, rows_of
from frostbench.app.sides import ROWS, Changed, with_preset
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.spec import canonical

SIDES = ("A", "B")
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

    def as_tree(self) -> Tree:
        """Return the form as a tree for JSON."""
        return asdict(self)

    def split_changes(self) -> Tree:
        """Return the options of the split that differ from their default.

        Raises:
            SettingsError: a value of the split is not allowed.
        """
        options = canonical(spec_of(SplitSpec, SPLIT_ROWS, self.split))
        return {name: value for name, value in options.items() if name != "kind"}


def first_form(workspace: Workspace) -> Form:
    """Return the form of a first visit: presets baseline and full on the first cache."""
    cache = next(iter(workspace.cache_names()), None)
    sides = {
        side: {"cache": cache} | with_preset({}, preset)
        for side, preset in zip(SIDES, ("baseline", "full"), strict=True)
    }
    return Form(sides, 3, values_of(SPLIT_ROWS, SplitSpec()))


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


def restore_form(tree: Any, workspace: Workspace) -> Form:
    """Return the form kept by a browser, with the values of a first visit for rows and caches that are missing."""
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
    return Form(form.sides, tree.get("seeds", form.seeds), split, _read_switched(tree))


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
