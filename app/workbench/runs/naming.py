"""Names of settings: the nearest preset, and the options that differ from it, in words."""

import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.settings.parsing import leaves, parse, preset, preset_names
from frostbench.heads.spec import canonical
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

MOST_NAMED = 3
"""Largest number of changes that a name states; further ones are counted."""
Counts = npt.NDArray[np.int64]
Settings = Mapping[str, Any]
"""Values that differ from the defaults, by dotted option."""


class Change(NamedTuple):
    """An option that differs from the preset.

    Attributes:
        path: dotted option.
        title: its title.
        old: value in the preset, as text; "" if the preset does not have the option.
        new: value in the settings, as text; "" if they do not have the option.
    """

    path: str
    title: str
    old: str
    new: str


def nearest(settings: Settings) -> tuple[str, tuple[Change, ...]]:
    """Return the preset that settings without a seed differ least from, and the differences.

    >>> preset, changes = nearest({"train.loss.smoothing.epsilon": 0.2})
    >>> preset, [(change.title, change.old, change.new) for change in changes]
    ('plain', [('Label smoothing ε', '0', '0.2')])
    """
    distances, defaults = _distances(), _defaults()
    own = [(path, _hashable(value)) for path, value in settings.items() if value != defaults.get(path)]
    found = distances.sizes + len(own)
    for path, value in own:
        less = distances.equal.get((path, value), distances.shared.get(path))
        if less is not None:
            found -= less
    start = distances.names[int(found.argmin())]
    return start, _changes(_presets()[start], settings)


def name_of(start: str, changes: Sequence[Change], shares: Mapping[tuple[str, str], float]) -> str:
    """Return the name of settings among others: the preset, and the changes that fewest of the others share.

    Args:
        start: the preset.
        changes: what differs from it.
        shares: share of all settings that have a value, by option and value as text; 0 if it is not listed.

    >>> ema, decay = Change("train.ema", "Average weights", "0", "0.9"), Change("wd", "Weight decay", "0", "1")
    >>> name_of("plain", [ema, decay], {("train.ema", "0.9"): 0.8, ("wd", "1"): 0.1})
    'plain, Weight decay 1, Average weights 0.9'
    """
    ordered = sorted(changes, key=lambda change: shares.get((change.path, change.new), 0.0))
    words = [f"{change.title} {change.new or 'as default'}" for change in ordered[:MOST_NAMED]]
    more = [f"{len(changes) - MOST_NAMED} more"] if len(changes) > MOST_NAMED else []
    return ", ".join([start, *words, *more])


@cache
def _presets() -> dict[str, Settings]:
    return {name: leaves(canonical(parse(RunSpec, preset(name)))) for name in preset_names()}


@cache
def _defaults() -> Settings:
    return leaves(RunSpec().model_dump(mode="json"))


class _Distances(NamedTuple):
    """What the number of options in which settings differ from each of P presets follows from.

    That number is |preset| + |settings| - |options in both| - |options in both with the same value|, where each side
    counts the options that differ from the defaults.

    Attributes:
        names: presets in the order in which ties are decided.
        sizes: [P] options of each preset.
        shared: [P] whether each preset has an option, by option.
        equal: [P] 2 if a preset has a value, and 1 if it has another one, by option and value.
    """

    names: tuple[str, ...]
    sizes: Counts
    shared: Mapping[str, Counts]
    equal: Mapping[tuple[str, Hashable], Counts]


@cache
def _distances() -> _Distances:
    names = tuple(sorted(_presets(), key=lambda name: (name != "plain", name)))
    own = [{p: v for p, v in _presets()[name].items() if v != _defaults().get(p)} for name in names]
    shared: dict[str, Counts] = {}
    equal: dict[tuple[str, Hashable], Counts] = {}
    for number, settings in enumerate(own):
        for path, value in settings.items():
            shared.setdefault(path, np.zeros(len(names), np.int64))[number] = 1
            equal.setdefault((path, _hashable(value)), np.zeros(len(names), np.int64))[number] = 1
    equal = {(path, value): same + shared[path] for (path, value), same in equal.items()}
    return _Distances(names, np.array([len(settings) for settings in own]), shared, equal)


def _hashable(value: Any) -> Hashable:
    return json.dumps(value, sort_keys=True) if isinstance(value, list | tuple | dict) else value


def _value(settings: Settings, path: str) -> Any:
    return settings.get(path, _defaults().get(path))


def _changes(old: Settings, new: Settings) -> tuple[Change, ...]:
    pairs = [(path, _value(old, path), _value(new, path)) for path in dict.fromkeys([*new, *old])]
    return tuple([Change(path, _title(path), as_text(a), as_text(b)) for path, a, b in pairs if a != b])


@cache
def _title(path: str) -> str:
    return label_of(RunSpec, path)


def as_text(value: Any) -> str:
    """Return a value as people write it.

    >>> as_text(True), as_text(0.1), as_text([768, 384]), as_text(None)
    ('on', '0.1', '768, 384', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_text, value))
    return str(value)
