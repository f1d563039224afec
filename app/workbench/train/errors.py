"""Errors of a form's values, each at its field and in words: the rule, what was entered, and what to do."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from frostbench.app.depth import is_too_deep
from frostbench.app.forms import spec_of, tree_of
from frostbench.app.rows import Row
from frostbench.app.workbench.train.words import in_words
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.wording import tagged_path
from frostbench.heads.spec import rule_of

LONGEST = 60
"""Maximum number of characters of an input that a message repeats."""
WHOLE, NUMBER = ("int_parsing", "int_type", "int_from_float"), ("float_parsing", "float_type", "finite_number")
BOUNDS = {
    "greater_than": ("gt", "greater than", "larger"),
    "greater_than_equal": ("ge", "at least", "larger"),
    "less_than": ("lt", "less than", "smaller"),
    "less_than_equal": ("le", "at most", "smaller"),
}
"""For each of pydantic's errors about a bound: the key of the bound, the rule in words, and the way out."""


class Errors(dict[str, str]):
    """Messages by row key; under "" what concerns no single row."""


def field_errors(
    spec_type: type[BaseModel], rows: Sequence[Row], values: Mapping[str, Any], workspace: Workspace
) -> Errors:
    """Return the errors of a form's values; files are checked before the spec reads them."""
    found = Errors()
    kept = dict(values)
    for row in rows:
        if row.is_active(values) and (message := _unreadable(row, values, workspace)):
            found[row.key], kept[row.key] = message, row.default
    try:
        spec_of(spec_type, rows, kept)
    except SettingsError as error:
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            raise
        for item in cause.errors(include_url=False):
            named = _row_of(tagged_path(item["loc"], spec_type), rows)
            found.setdefault("" if named is None else named.key, _sentence(item, named))
    return found


def _unreadable(row: Row, values: Mapping[str, Any], workspace: Workspace) -> str:
    """Return why the value of a row cannot be read, or ""."""
    value = values[row.key]
    if is_too_deep(value):
        return f"Brackets may not be nested this deeply. Check what you entered: {_shown(value)}."
    if row.is_file and value:
        try:
            workspace.file(str(value))
        except SettingsError as error:
            return str(error)
    try:
        tree_of([row], {**values, **dict(row.needs)})
    except SettingsError:
        if row.control == "numbers":
            return f"{_listed()} You entered {_shown(value)}."
        return f"This must be written as YAML, such as {{owl: 0.3, sparrow: 0.7}}. You entered {_shown(value)}."
    return ""


def _row_of(path: str, rows: Sequence[Row]) -> Row | None:
    """Return the row of an error's path, or of the part of it that is a row; a union is the row of its kind."""
    by_key = {row.key: row for row in rows}
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        key = ".".join(parts[:length])
        if key in by_key or f"{key}.kind" in by_key:
            return by_key.get(key, by_key.get(f"{key}.kind"))
    return None


def _sentence(item: Any, row: Row | None) -> str:
    kind, given = item["type"], item.get("input")
    if kind in BOUNDS:
        key, rule, way = BOUNDS[kind]
        bound = f"{item['ctx'][key]:g}"
        return f"This must be {rule} {bound}, and {_shown(given)} is not. Enter a {way} number{_example(row)}."
    if kind in (*WHOLE, *NUMBER):
        noun = "a whole number" if kind in WHOLE else "a number"
        if row is not None and row.control == "numbers":
            return f"{_listed()} {_shown(given)} is not {noun}."
        if given is None or given == "":
            return f"This field is empty, but needs {noun}. Enter one{_example(row)}."
        comma = " Use a point for decimals." if "," in str(given) else ""
        return f"This must be {noun}, and {_shown(given)} is not.{comma or f' Enter one{_example(row)}.'}"
    if kind in ("union_tag_invalid", "literal_error") and row is not None:
        return f"This must be one of {', '.join(row.choices)}, and {_shown(given)} is not. Choose one of them."
    if kind == "too_short" and row is not None and row.control == "numbers":
        return f"This needs at least one number. Enter one{_example(row)}."
    if kind == "dict_type":
        return f"This must name classes with a value each, such as {{owl: 0.3}}. You entered {_shown(given)}."
    rule = rule_of(item)
    return in_words(rule if rule.endswith((".", "?")) else f"{rule}; you entered {_shown(given)}")


def _listed() -> str:
    return "This must be whole numbers with commas between them, such as 768, 384."


def _example(row: Row | None) -> str:
    if row is None or row.control not in ("number", "numbers") or row.default in (None, ""):
        return ""
    default = f"{row.default:g}" if isinstance(row.default, float) else str(row.default)
    return f", such as {default}"


def _shown(value: Any) -> str:
    text = "nothing" if value is None or value == "" else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
