"""A search around B as the page sends it: the values of some of its options, as a grid or to draw from."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from frostbench.app.rows import Row
from frostbench.app.sides import ROWS
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.train.errors import field_errors
from frostbench.app.workspace import Workspace
from frostbench.training.run import RunSpec

MOST_OPTIONS = 8
MOST_SETTINGS = 200
"""Largest number of settings of a search."""
MOST_ROUNDS = 5
METHODS = ("grid", "random")
SCALES = ("list", "log", "linear")
_BY_KEY = {row.key: row for row in ROWS}


@dataclass(frozen=True)
class Values:
    """The values of one option that a search tries.

    Attributes:
        row: the option.
        scale: whether `values` are a list, or the ends of a range that is drawn from on a logarithmic or linear scale.
        values: values of the option's control.
    """

    row: Row
    scale: Literal["list", "log", "linear"]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Search:
    """A search as the page sends it.

    Attributes:
        method: every combination, or settings drawn at random; the same are drawn each time, and more trials add to
            them.
        options: the options and their values.
        trials: number of settings to draw.
        rounds: number of rounds of successive halving, or 0.
    """

    method: Literal["grid", "random"]
    options: tuple[Values, ...]
    trials: Any
    rounds: Any

    def label_of(self, key: str) -> str:
        """Return the title of an option of the search, or of its number of trials or rounds."""
        titles = {"trials": "Trials", "rounds": "Successive halving"}
        return titles.get(key) or _BY_KEY[key].label


def read_search(tree: Any) -> Search:
    """Parse a search that the page sent.

    Raises:
        RequestError: it has another form.
    """
    wrong = RequestError("The page did not send its search in the form it should have. Reload the page.")
    if not isinstance(tree, Mapping) or tree.get("method") not in METHODS or not isinstance(tree.get("options"), list):
        raise wrong
    options = []
    for item in tree["options"]:
        known = isinstance(item, Mapping) and item.get("key") in _BY_KEY and item.get("scale") in SCALES
        if not known or not isinstance(item.get("values"), list):
            raise wrong
        options.append(Values(_BY_KEY[item["key"]], item["scale"], tuple(item["values"])))
    return Search(tree["method"], tuple(options), tree.get("trials"), tree.get("rounds"))


def problems_of(search: Search, values: Mapping[str, Any], workspace: Workspace) -> dict[str, str]:
    """Return why a search cannot be made, by the key of the option, `trials`, `rounds` or ""; empty if it can.

    Args:
        search: the search.
        values: control values of side B.
        workspace: workspace of the page.
    """
    found: dict[str, str] = {}
    for option in search.options:
        if text := _wrong_values(option, search.method, values, workspace):
            found[option.row.key] = text
    if not search.options:
        found[""] = "A search needs an option whose values it tries. Add one."
    elif len(search.options) > MOST_OPTIONS:
        found[""] = f"A search may have at most {MOST_OPTIONS} options, got {len(search.options)}. Remove some."
    elif len({option.row.key for option in search.options}) < len(search.options):
        found[""] = "A search may have each option once. Remove the second one."
    if search.method == "random" and not _is_whole(search.trials, 2, MOST_SETTINGS):
        given = "nothing" if search.trials in (None, "") else search.trials
        found["trials"] = f"This must be a whole number from 2 to {MOST_SETTINGS}, and {given} is not."
    if search.rounds != 0 and not _is_whole(search.rounds, 2, MOST_ROUNDS):
        found["rounds"] = f"This takes 2 to {MOST_ROUNDS} rounds, got {search.rounds}."
    size = math.prod(len(option.values) for option in search.options)
    if not found and search.method == "grid" and size > MOST_SETTINGS:
        found[""] = (
            f"These values have {size:,} combinations, and a search may have at most {MOST_SETTINGS} settings. Remove "
            "values, or draw some at random."
        )
    return found


def _is_whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _wrong_values(option: Values, method: str, values: Mapping[str, Any], workspace: Workspace) -> str:
    """Return why the values of an option cannot be tried, or ""."""
    row, given = option.row, option.values
    if not row.is_active(values):
        return "B does not have this option now. Remove it from the search."
    if not given or len(given) > MOST_SETTINGS:
        return f"This needs 1 to {MOST_SETTINGS} values, got {len(given)}."
    for value in given:
        errors = field_errors(RunSpec, ROWS, {**values, row.key: value}, workspace)
        if text := errors.get(row.key, errors.get("", "")):
            return text
    if option.scale == "list":
        texts = [json.dumps(value) for value in given]
        return "" if len(set(texts)) == len(texts) else "The values must differ. Name each once."
    if method == "grid":
        return "A grid needs a list of values. List them, or draw settings at random."
    return _wrong_range(option)


def _wrong_range(option: Values) -> str:
    given = option.values
    if len(given) != 2 or option.row.control != "number" or not all(_is_number(value) for value in given):
        return "A range needs two numbers, such as 0.001, 0.1."
    if not given[0] < given[1]:
        return f"A range goes from the smaller to the larger number, got {given[0]:g} and {given[1]:g}."
    if option.scale == "log" and given[0] <= 0:
        return f"A range on a logarithmic scale must be above 0, and {given[0]:g} is not. Use a linear scale."
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
