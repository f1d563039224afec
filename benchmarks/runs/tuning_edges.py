"""Finds tuned options whose winning value is the smallest or largest of the values tried."""

from collections.abc import Iterable, Sequence
from typing import Any

from annotated_types import Ge, Le

from frostbench.heads.spec import Spec
from frostbench.heads.titles import named
from frostbench.training.run import RunSpec


def edges(paths: Iterable[str], specs: Sequence[RunSpec], winner: RunSpec) -> tuple[str, ...]:
    """Describe each option whose winning value is the smallest or largest tried, unless that is a bound of the option.

    Only values of the same kind are compared: a learning rate of SGD says nothing about one of AdamW. `paths` are the
    tuned options, and `specs` has one run of each setting.
    """
    found = []
    for path in dict.fromkeys(paths):
        kind, value = type(_owner(winner, path)[0]), _number(winner, path)
        numbers = {_number(spec, path) for spec in specs if type(_owner(spec, path)[0]) is kind} - {None}
        tried = sorted(number for number in numbers if number is not None)
        if value is None or len(tried) < 2 or value in _bounds(winner, path):
            continue
        for word, end in (("smallest", tried[0]), ("largest", tried[-1])):
            if value == end:
                found.append(f"{named(RunSpec, path)} = {value:g} ({word} of {len(tried)})")
    return tuple(found)


def _owner(spec: RunSpec, path: str) -> tuple[Spec | None, str]:
    """Return the spec that holds an option (None if the run lacks it) and the option's name in that spec."""
    *parts, name = path.split(".")
    owner: Any = spec
    for part in parts:
        owner = getattr(owner, part) if isinstance(owner, Spec) and part in type(owner).model_fields else None
    return (owner, name) if isinstance(owner, Spec) and name in type(owner).model_fields else (None, name)


def _number(spec: RunSpec, path: str) -> float | None:
    """Return the value of an option, or None if it is not a number."""
    owner, name = _owner(spec, path)
    value = None if owner is None else getattr(owner, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounds(spec: RunSpec, path: str) -> tuple[float, ...]:
    """Return the inclusive lower and upper bounds of an option."""
    owner, name = _owner(spec, path)
    rules: list[Any] = [] if owner is None else type(owner).model_fields[name].metadata
    bounds: list[Any] = [r.ge for r in rules if isinstance(r, Ge)] + [r.le for r in rules if isinstance(r, Le)]
    return tuple(map(float, bounds))
