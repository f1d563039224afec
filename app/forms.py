"""Conversion between the values of a form's controls and a spec."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.rows import Row, control_value
from frostbench.benchmarks.settings.parsing import SettingsError, Tree, merge, parse
from frostbench.benchmarks.settings.reading import read_yaml

SpecT = TypeVar("SpecT", bound=BaseModel)
Values = dict[str, Any]
SHOWN = 200
"""Maximum number of characters of an input that an error message repeats."""


def values_of(rows: Sequence[Row], spec: BaseModel) -> Values:
    """Return the control values for a spec; rows of unselected kinds keep their default."""
    values = {row.key: row.default for row in rows}
    for row in sorted(rows, key=lambda row: len(row.needs)):
        if row.is_active(values):
            value: Any = spec
            for name in row.path.split("."):
                value = getattr(value, name)
            values[row.key] = control_value(row.control, value)
    return values


def tree_of(rows: Sequence[Row], values: Mapping[str, Any]) -> Tree:
    """Return the control values of the selected kinds as nested settings.

    Raises:
        SettingsError: the text of a control is not YAML, or a value is nested too deeply.
    """
    tree: Tree = {}
    for row in rows:
        if row.is_active(values):
            nested: Any = _parse_value(row, values[row.key])
            for name in reversed(row.path.split(".")):
                nested = {name: nested}
            tree = merge(tree, nested)
    return tree


def spec_of(spec_type: type[SpecT], rows: Sequence[Row], values: Mapping[str, Any], fixed: Tree | None = None) -> SpecT:
    """Build a spec from the control values, overridden by `fixed` settings that the form does not show.

    Raises:
        SettingsError: a value is not allowed; the message names every such option.
    """
    return parse(spec_type, tree_of(rows, values) | (fixed or {}))


def _parse_value(row: Row, value: Any) -> Any:
    if is_too_deep(value):
        raise SettingsError(f"{row.label} ({row.path}): value may be nested at most {DEEPEST} levels deep.")
    if row.control not in ("text", "numbers"):
        return value
    text = str(value if value is not None else "").strip()
    try:
        return read_yaml(f"[{text.strip('[]')}]" if row.control == "numbers" else text)
    except yaml.YAMLError as error:
        shortened = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise SettingsError(f"{row.label} ({row.path}): value must be YAML, got {shortened!r} ({error}).") from error
