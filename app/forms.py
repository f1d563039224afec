"""The values of a form's controls as a spec, and back."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.rows import Row, shown
from frostbench.benchmarks.settings.parsing import SettingsError, Tree, merge, parse
from frostbench.benchmarks.settings.reading import read_yaml

SpecT = TypeVar("SpecT", bound=BaseModel)
Values = dict[str, Any]
SHOWN = 200
"""Letters of a text that an error repeats."""


def values_of(rows: Sequence[Row], spec: BaseModel) -> Values:
    """What the controls show for a spec; rows of kinds that are not chosen keep their default."""
    values = {row.key: row.default for row in rows}
    for row in sorted(rows, key=lambda row: len(row.needs)):
        if row.is_active(values):
            values[row.key] = shown(row.control, _at(spec, row.path))
    return values


def tree_of(rows: Sequence[Row], values: Mapping[str, Any]) -> Tree:
    """The nested settings that the controls of the chosen kinds stand for.

    Raises:
        SettingsError: the text of a control is not YAML.
    """
    tree: Tree = {}
    for row in rows:
        if row.is_active(values):
            nested: Any = _meant(row, values[row.key])
            for name in reversed(row.path.split(".")):
                nested = {name: nested}
            tree = merge(tree, nested)
    return tree


def spec_of(spec_type: type[SpecT], rows: Sequence[Row], values: Mapping[str, Any], fixed: Tree | None = None) -> SpecT:
    """The spec that the controls stand for, with settings on top that the form does not show.

    Raises:
        SettingsError: a value is not allowed; the message names every such option.
    """
    return parse(spec_type, tree_of(rows, values) | (fixed or {}))


def _at(spec: BaseModel, path: str) -> Any:
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _meant(row: Row, value: Any) -> Any:
    """A control's value as settings.

    Raises:
        SettingsError: it is nested more deeply than YAML may be, or its text is not YAML.
    """
    if is_too_deep(value):
        raise SettingsError(
            f"{row.label} ({row.path}): values are nested {DEEPEST} deep at most, however: deeper ones came."
        )
    if row.control not in ("text", "numbers"):
        return value
    text = str(value if value is not None else "").strip()
    try:
        return read_yaml(f"[{text.strip('[]')}]" if row.control == "numbers" else text)
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{row.label} ({row.path}): a value is written as YAML, however: {_cut(text)!r} came ({error})."
        ) from error


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
