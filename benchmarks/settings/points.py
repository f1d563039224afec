"""Points: options with their values, from a grid or from a list, and what to call them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from frostbench.benchmarks.settings.parsing import SettingsError, Tree, leaves

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _form(settings: Any) -> str:
    return "values" if isinstance(settings, Mapping) else "list"


Settings = Annotated[
    Annotated[dict[Name, tuple[Any, ...]], Field(max_length=20), Tag("values")]
    | Annotated[tuple[dict[Name, Any], ...], Field(max_length=10_000), Tag("list")],
    Discriminator(_form),
]
"""What a row is tuned over: values by dotted option, of which every combination is a setting, or a list of settings."""


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[Tree]:
    """Every combination of a grid's values; none where it names no option.

    Raises:
        SettingsError: an option has no values.
    """
    empty = [path for path, values in grid.items() if not values]
    if empty:
        raise SettingsError(f"each option of a grid needs values, however: {empty} has none. Remove it or add some.")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())] if grid else []


def settings_of(settings: Settings) -> list[Tree]:
    """The settings that a row is tuned over, by dotted option; where there is nothing to tune, the row as it is.

    >>> settings_of({"a.lr": (1, 2)}), settings_of(({"a": {"lr": 3}},)), settings_of({})
    ([{'a.lr': 1}, {'a.lr': 2}], [{'a.lr': 3}], [{}])
    """
    points = combinations(settings) if isinstance(settings, Mapping) else list(settings)
    return [leaves(point) for point in points] or [{}]


def names_of(points: Sequence[Tree]) -> list[str]:
    """A name for each point, by the last word of its options, or by all of it where two end in the same.

    >>> names_of([{"train.optim.lr": 0.01, "head.body.hidden": [64]}, {}])
    ['lr=0.01, hidden=[64]', 'as it is']
    """
    paths = list(dict.fromkeys(path for point in points for path in point))
    last = [path.rsplit(".", 1)[-1] for path in paths]
    short = {path: path if last.count(end) > 1 else end for path, end in zip(paths, last, strict=True)}
    return [", ".join(f"{short[path]}={shown(value)}" for path, value in p.items()) or "as it is" for p in points]


def shown(value: Any) -> str:
    """A value as a name holds it: short, but other for every number.

    >>> shown((0.30, 1e-05, 0.1234567, 2)), shown(None)
    ('[0.3, 1e-05, 0.1234567, 2]', 'None')
    """
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def check_named(tune: Mapping[str, Settings], rows: Sequence[str]) -> None:
    """Refuse budgets that leave out a row or name one that is not there.

    Raises:
        SettingsError: that is so.
    """
    unknown = [name for name in tune if name not in rows]
    if unknown:
        raise SettingsError(f"tune names rows of the bench, {list(rows)}, however: {unknown} came. Name one of these.")
    lacking = [name for name in rows if name not in tune]
    if lacking:
        raise SettingsError(
            f"where one row is tuned, all are, the baseline included, however: tune leaves out {lacking}. Give them as "
            "many settings as the others, or {} where there is nothing to tune."
        )


def check_equal(tune: Mapping[str, Settings]) -> None:
    """Refuse budgets of which one is larger than another; a row with nothing to tune has none.

    Raises:
        SettingsError: that is so.
    """
    counts = {name: len(settings_of(settings)) for name, settings in tune.items() if settings}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise SettingsError(
            f"all rows are tuned over equally many settings, however: {told}. Add or remove values; {{}} says that a "
            "row has nothing to tune."
        )


def with_base_called(name: str, tune: Mapping[str, Any], rows: Sequence[str]) -> dict[str, Any]:
    """Budgets of rows, of which the first is called otherwise in a bench: by the name of its preset.

    >>> with_base_called("plain", {"mine": {}, "other": {}}, ["mine", "other"])
    {'plain': {}, 'other': {}}

    Raises:
        SettingsError: as `check_named`, in the names of these rows.
    """
    if tune:
        check_named(tune, rows)
    return {name if row == rows[0] else row: settings for row, settings in tune.items()}


def check_ensembles(ensembles: Mapping[str, Sequence[str]], rows: Sequence[str]) -> None:
    """Refuse ensembles that are called as a row is, that equal another, or of rows that are not there or come twice.

    Raises:
        SettingsError: that is so.
    """
    known: dict[frozenset[str], str] = {}
    for name, members in ensembles.items():
        if name in rows:
            raise SettingsError(f"an ensemble has a name of its own, however: {name!r} is a row. Rename the ensemble.")
        unknown = [member for member in members if member not in rows]
        if unknown:
            raise SettingsError(
                f"an ensemble averages rows of this bench, {list(rows)}, however: {name!r} names {unknown}. Rename or "
                "remove it."
            )
        if len(set(members)) < len(members):
            raise SettingsError(
                f"the members of an ensemble differ, however: {name!r} has {list(members)}. Name each row once."
            )
        same = known.setdefault(frozenset(members), name)
        if same != name:
            raise SettingsError(
                f"ensembles must differ, however: {name!r} has the same members as {same!r}, and would be compared "
                "with itself. Change or remove it."
            )
