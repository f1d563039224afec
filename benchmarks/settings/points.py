"""Points of a grid or of a tuning budget: option values, their names, and checks of budgets and ensembles."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from frostbench.benchmarks.settings.parsing import SettingsError, Tree, leaves
from frostbench.heads.titles import named
from frostbench.training.run import RunSpec

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _form(settings: Any) -> str:
    return "values" if isinstance(settings, Mapping) else "list"


Settings = Annotated[
    Annotated[dict[Name, tuple[Any, ...]], Field(max_length=20), Tag("values")]
    | Annotated[tuple[dict[Name, Any], ...], Field(max_length=10_000), Tag("list")],
    Discriminator(_form),
]
"""Tuning settings of a row: values by dotted option (every combination is a setting), or a list of settings."""


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[Tree]:
    """Return every combination of a grid's values, or [] if the grid is empty."""
    empty = [named(RunSpec, path) for path, values in grid.items() if not values]
    if empty:
        raise SettingsError(
            f"Each option of a grid needs values, but {', '.join(empty)} has none. Remove the option or add values."
        )
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())] if grid else []


def settings_of(settings: Settings) -> list[Tree]:
    """Return the settings that a row is tuned over, by dotted option, or [{}] if there is nothing to tune.

    >>> settings_of({"a.lr": (1, 2)}), settings_of(({"a": {"lr": 3}},)), settings_of({})
    ([{'a.lr': 1}, {'a.lr': 2}], [{'a.lr': 3}], [{}])
    """
    points = combinations(settings) if isinstance(settings, Mapping) else list(settings)
    return [leaves(point) for point in points] or [{}]


def names_of(points: Sequence[Tree]) -> list[str]:
    """Return a name for each point: its values by the last word of their option, or by the full path if two share it.

    >>> names_of([{"train.optim.lr": 0.01, "head.body.hidden": [64]}, {}])
    ['lr=0.01, hidden=[64]', 'as it is']
    """
    paths = list(dict.fromkeys(path for point in points for path in point))
    last = [path.rsplit(".", 1)[-1] for path in paths]
    short = {path: path if last.count(end) > 1 else end for path, end in zip(paths, last, strict=True)}
    return [", ".join(f"{short[path]}={shown(value)}" for path, value in p.items()) or "as it is" for p in points]


def shown(value: Any) -> str:
    """Format a value for use in a name: short, but distinct for distinct numbers.

    >>> shown((0.30, 1e-05, 0.1234567, 2)), shown(None)
    ('[0.3, 1e-05, 0.1234567, 2]', 'None')
    """
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def check_named(tune: Mapping[str, Settings], rows: Sequence[str]) -> None:
    """Check that `tune` has an entry for every row and for nothing else."""
    unknown = [name for name in tune if name not in rows]
    if unknown:
        raise SettingsError(f"`tune` must name rows of the bench, which are {list(rows)}, got {unknown}.")
    missing = [name for name in rows if name not in tune]
    if missing:
        raise SettingsError(
            f"If one row is tuned, all must be, including the baseline, but `tune` leaves out {missing}. Give them as "
            "many settings as the other rows, or {} if there is nothing to tune."
        )


def check_equal(tune: Mapping[str, Settings]) -> None:
    """Check that all rows have equally many settings, apart from rows with nothing to tune."""
    counts = {name: len(settings_of(settings)) for name, settings in tune.items() if settings}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
        raise SettingsError(
            f"All rows must be tuned over equally many settings, but {numbers}. Add or remove values, or use {{}} for "
            "a row with nothing to tune."
        )


def with_base_called(name: str, tune: Mapping[str, Any], rows: Sequence[str]) -> dict[str, Any]:
    """Rename the first row of `tune` to the name of its preset, which is the row's name in a bench.

    >>> with_base_called("plain", {"mine": {}, "other": {}}, ["mine", "other"])
    {'plain': {}, 'other': {}}
    """
    if tune:
        check_named(tune, rows)
    return {name if row == rows[0] else row: settings for row, settings in tune.items()}


def check_ensembles(ensembles: Mapping[str, Sequence[str]], rows: Sequence[str]) -> None:
    """Check that each ensemble has its own name and distinct, existing rows, and that no two have the same rows."""
    known: dict[frozenset[str], str] = {}
    for name, members in ensembles.items():
        if name in rows:
            raise SettingsError(f"An ensemble needs a name of its own, but {name!r} is a row. Rename the ensemble.")
        unknown = [member for member in members if member not in rows]
        if unknown:
            raise SettingsError(
                f"The members of an ensemble must be rows of this bench, which are {list(rows)}, but {name!r} has "
                f"{unknown}. Rename or remove them."
            )
        if len(set(members)) < len(members):
            raise SettingsError(
                f"The members of an ensemble must differ, but {name!r} has {list(members)}. Name each row once."
            )
        same = known.setdefault(frozenset(members), name)
        if same != name:
            raise SettingsError(
                f"Ensembles must differ, but {name!r} has the same members as {same!r}. Change or remove one of them."
            )
