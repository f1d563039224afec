"""Each change of B alone: the settings in which B differs from A, divided into changes that can stand alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frostbench.app.forms import Values
from frostbench.app.rows import Row
from frostbench.app.sides import ROWS, Difference, differences, matching_rules, run_of
from frostbench.app.workbench.runs.naming import as_text
from frostbench.app.workbench.train.words import in_words
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.heads.spec import canonical
from frostbench.training.run import RunSpec

MOST_NAMED = 2
"""Maximum number of options of one kind that the name of a change states."""
LONGEST = 150
"""Maximum length of a change's name; a bench allows 200 characters."""


@dataclass(frozen=True)
class Single:
    """A change of A that can be made by itself: one option, with the options that only exist because of it.

    Attributes:
        name: titles and values of its options.
        keys: keys of the rows that it changes.
        values: values of side A with the change.
        run: their run, or None if the change is not allowed alone.
        reason: why it is not trained alone, or "".
    """

    name: str
    keys: tuple[str, ...]
    values: Values
    run: RunSpec | None
    reason: str


def singles(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Single]:
    """Return the changes that turn side A into B; an option of a kind that A does not have belongs to that kind.

    Raises:
        SettingsError: side A has a value that is not allowed.
    """
    found, same = differences(a, b), canonical(run_of(a))
    leaders = [one for one in found if one.row.is_active(a) and one.row.is_active(b)]
    changes = []
    for leader in leaders:
        values = _changed(a, b, leader.row)
        own = [one for one in found if one is leader or _appears(one.row, a, values)]
        changes.append(_single(own, values, same))
    return changes


def _changed(a: Mapping[str, Any], b: Mapping[str, Any], row: Row) -> Values:
    """Return the values of A with an option of B, and with the options that exist because of it as on B."""
    values: Values = {**a, row.key: b[row.key]}
    for other in ROWS:
        # Rows are in the order of the options, so a kind comes before the options that it has.
        if _appears(other, a, values):
            values[other.key] = b[other.key] if other.is_active(b) else other.default
    return values


def _appears(row: Row, a: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return row.is_active(values) and not row.is_active(a)


def _single(own: Sequence[Difference], values: Values, same: Mapping[str, Any]) -> Single:
    name, keys = _name(own), tuple(one.row.key for one in own)
    try:
        run = run_of(values)
    except SettingsError as error:
        return Single(name, keys, values, None, in_words(str(error)))
    refused = matching_rules(run, ("refuse",))
    if refused:
        return Single(name, keys, values, None, in_words(refused[0].sentence, run.model_dump(mode="json")))
    if canonical(run) == same:
        return Single(name, keys, values, None, "It changes nothing by itself.")
    return Single(name, keys, values, run, "")


def _name(own: Sequence[Difference]) -> str:
    parts = [f"{one.row.label}: {as_text(one.b) or one.row.empty or 'none'}" for one in own]
    more = [f"{len(parts) - 1 - MOST_NAMED} more"] if len(parts) > 1 + MOST_NAMED else []
    name = ", ".join([*parts[: 1 + MOST_NAMED], *more])
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"
