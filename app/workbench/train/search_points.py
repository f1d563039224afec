"""The settings of a search: every combination of values, or settings drawn at random."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from frostbench.app.forms import tree_of
from frostbench.app.sides import ROWS, matching_rules
from frostbench.app.workbench.train.search import Search, Values
from frostbench.app.workbench.train.words import in_words
from frostbench.benchmarks.settings.parsing import SettingsError, Tree, merge, parse, with_changes
from frostbench.benchmarks.settings.points import combinations
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

DRAWS = 20
"""Draws per wanted setting before a search is said to have too few different ones."""
DIGITS = 3
"""Significant digits of a drawn number."""
SAME = "Settings that equal another one are tried once."


@dataclass(frozen=True)
class Points:
    """The settings of a search.

    Attributes:
        points: changes to B by dotted option.
        runs: run of each point.
        is_grid: whether these are all combinations of the values.
        left_out: why settings are left out, each with their number.
    """

    points: tuple[Tree, ...]
    runs: tuple[RunSpec, ...]
    is_grid: bool
    left_out: dict[str, int]


def points_of(search: Search, values: Mapping[str, Any]) -> Points:
    """Return the settings of a search without problems; those that are not allowed or equal another are left out.

    Raises:
        SettingsError: fewer than two settings are left, or there are fewer different ones than trials.
    """
    tree = merge(RunSpec().model_dump(mode="json"), tree_of(ROWS, values))
    lists = {option.row.path: _plain(option, values) for option in search.options}
    if search.method == "grid":
        found = _grid(json.dumps(tree, sort_keys=True), json.dumps(lists))
    else:
        scales = json.dumps({option.row.path: [option.scale, option.row.whole] for option in search.options})
        found = _drawn(json.dumps(tree, sort_keys=True), json.dumps(lists), scales, search.trials)
    if len(found.points) < 2:
        why = " ".join(found.left_out) or "There is only one combination of these values. Add values."
        raise SettingsError(f"A search needs at least two settings. {why}")
    return found


def _plain(option: Values, values: Mapping[str, Any]) -> list[Any]:
    """Return the values of a control as values of the option."""
    plain = []
    for value in option.values:
        nested: Any = tree_of([option.row], {**values, option.row.key: value})
        for name in option.row.path.split("."):
            nested = nested[name]
        plain.append(nested)
    return plain


@lru_cache(maxsize=20)
def _grid(tree: str, lists: str) -> Points:
    points = combinations(json.loads(lists))
    kept: list[Tree] = []
    left_out: dict[str, int] = {}
    known: dict[str, RunSpec] = {}
    for point in points:
        if why := _refused(json.loads(tree), point, known):
            left_out[why] = left_out.get(why, 0) + 1
        else:
            kept.append(point)
    return Points(tuple(kept), tuple(known.values()), len(kept) == len(points), left_out)


@lru_cache(maxsize=20)
def _drawn(tree: str, lists: str, scales: str, trials: int) -> Points:
    """Draw settings one after the other, so that more trials add to the same ones."""
    generator, start = random.Random(0), json.loads(tree)
    kept: list[Tree] = []
    left_out: dict[str, int] = {}
    known: dict[str, RunSpec] = {}
    values, drawn = json.loads(lists), json.loads(scales)
    for _ in range(DRAWS * trials):
        point = {path: _draw(values[path], drawn[path], generator) for path in values}
        why = _refused(start, point, known)
        if not why:
            kept.append(point)
        elif why != SAME:
            left_out[why] = left_out.get(why, 0) + 1
        if len(kept) == trials:
            return Points(tuple(kept), tuple(known.values()), False, left_out)
    why = f" {next(iter(left_out))}" if left_out else ""
    raise SettingsError(
        f"There are too few different settings: {len(kept)} were found for {trials} trials. Widen the ranges, or lower "
        f"the number of trials.{why}"
    )


def _draw(values: list[Any], drawn: tuple[str, bool], generator: random.Random) -> Any:
    scale, is_whole = drawn
    if scale == "list":
        return generator.choice(values)
    low, high = values
    part = generator.random()
    value = math.exp(math.log(low) + part * math.log(high / low)) if scale == "log" else low + part * (high - low)
    return round(value) if is_whole else min(high, max(low, float(f"{value:.{DIGITS}g}")))


def _refused(tree: Tree, point: Tree, known: dict[str, RunSpec]) -> str:
    """Return why a setting is left out, or "" after adding it to the known ones."""
    try:
        run = parse(RunSpec, with_changes(tree, point))
    except SettingsError as error:
        return in_words(str(error))
    if rules := matching_rules(run, ("refuse",)):
        return in_words(rules[0].sentence, run.model_dump(mode="json"))
    text = json.dumps(canonical(run), sort_keys=True)
    if text in known:
        return SAME
    known[text] = run
    return ""
