"""The two sides of the page as plain values: presets, switches, differences and unusable options.

A side is a mapping from row keys of `ROWS` to control values. The state of presets and switches is computed from these
values and never stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from pydantic import BaseModel

from frostbench.app.forms import Values, spec_of, tree_of, values_of
from frostbench.app.rows import Row, other_values, rows_of
from frostbench.benchmarks.settings.parsing import (
    SettingsError,
    Tree,
    leaves,
    load_yaml,
    merge,
    parse,
    preset,
    preset_names,
    with_changes,
)
from frostbench.heads.spec import canonical
from frostbench.training.checks.conflicts import RULES, Rule
from frostbench.training.run import RunSpec

ROWS = rows_of(RunSpec, leave_out=("seed",))
"""Every option of a run except its seed: compared runs need the same seeds, so the page sets them for both sides."""
CUSTOM = "custom"


@dataclass(frozen=True)
class Switch:
    """A named method: a set of options with recommended values. It is on if its first option is not neutral.

    Attributes:
        name: common name of the method.
        help: what the method does, in one sentence.
        sets: dotted options and their recommended values; the first decides whether the switch is on.
        needs: other dotted options that the method requires, with their values.
        instead: dotted options that the method replaces and therefore sets to their neutral values.
    """

    name: str
    help: str
    sets: Mapping[str, Any]
    needs: Mapping[str, Any]
    instead: Sequence[str] = ()

    def is_on(self, spec: RunSpec) -> bool:
        """Whether a run uses the method."""
        path = next(iter(self.sets))
        return bool(value_at(spec, path) != value_at(RunSpec(), path))


@cache
def switches() -> tuple[Switch, ...]:
    """Load the master switches in the order of configs/switches/switches.yaml."""
    with resources.as_file(resources.files("frostbench.configs") / "switches" / "switches.yaml") as path:
        tree = load_yaml(path)
    return tuple(
        Switch(name, switch["help"], switch["sets"], switch.get("needs", {}), switch.get("instead", ()))
        for name, switch in tree.items()
    )


def value_at(spec: BaseModel, path: str) -> Any:
    """Return the value of the option at a dotted path, or None if its kind is not selected."""
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


@cache
def preset_spec(name: str) -> RunSpec:
    """Return the run of a preset."""
    return parse(RunSpec, preset(name))


def run_of(values: Mapping[str, Any]) -> RunSpec:
    """Build the run of a side's control values.

    Raises:
        SettingsError: a value is not allowed.
    """
    return spec_of(RunSpec, ROWS, values)


def with_preset(values: Mapping[str, Any], name: str) -> Values:
    """Return a side's values set to a preset, except columns and background classes, which belong to the data."""
    filled = values_of(ROWS, preset_spec(name))
    return filled | {key: values[key] for key in ("columns", "background") if key in values}


def with_switch(values: Mapping[str, Any], switch: Switch, on: bool) -> Values:
    """Return a side's values with a switch on (its recommended values) or off (its neutral values).

    Raises:
        SettingsError: a value of the side is not allowed.
    """
    changes = _changes_of(run_of(values), switch) if on else _neutral(switch.sets)
    run = parse(RunSpec, with_changes(merge(RunSpec().model_dump(mode="json"), tree_of(ROWS, values)), changes))
    new = values_of(ROWS, run)
    return {row.key: new[row.key] if row.is_active(new) else values[row.key] for row in ROWS}


def _changes_of(run: RunSpec, switch: Switch) -> Tree:
    """Return the options of a run that turning on a switch changes, with their new values."""
    needed = {path: value for path, value in switch.needs.items() if value_at(run, path) != value}
    present = [path for path in switch.instead if value_at(run, path) is not None]
    replaced = {path: value for path, value in _neutral(present).items() if value_at(run, path) != value}
    return needed | replaced | dict(switch.sets)


def _neutral(paths: Iterable[str]) -> Tree:
    """Return the default of each option, which has no effect; omit options that the default run does not have."""
    values = {path: value_at(RunSpec(), path) for path in paths}
    plain = {path: value.model_dump() if isinstance(value, BaseModel) else value for path, value in values.items()}
    return {path: value for path, value in plain.items() if value is not None}


Changed = Mapping[str, Sequence[Any]]
"""Rows that a switch changed, by key: the values before and after."""


def changed_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the rows whose values changed, each with the values before and after."""
    return {row.key: [before[row.key], after[row.key]] for row in ROWS if before[row.key] != after[row.key]}


def undo_changes(values: Mapping[str, Any], changed: Changed) -> Values:
    """Return the previous values of the rows that a switch changed, except rows edited since."""
    keys = {row.key for row in ROWS}
    return {key: old for key, (old, new) in changed.items() if key in keys and values[key] == new}


def nearest_preset(run: RunSpec) -> tuple[str, bool]:
    """Return the preset that differs from a run in the fewest options, and whether in none, ignoring data and seed."""
    plain = run.model_copy(update={"columns": (), "background": (), "seed": 0})
    distance = {name: len(changes(preset_spec(name), plain)) for name in preset_names()}
    best = min(distance, key=lambda name: distance[name])
    return best, distance[best] == 0


def changes(start: BaseModel, end: BaseModel) -> Tree:
    """Return the dotted options that turn one spec into another of the same type.

    >>> changes(RunSpec(), parse(RunSpec, {"head": {"body": {"kind": "mlp", "dropout": 0.1}}}))
    {'head.body.kind': 'mlp', 'head.body.dropout': 0.1}
    """
    # Not by `walk`: two trees are compared, and a spec of another kind counts in full.
    found: Tree = {}
    for name in type(end).model_fields:
        old, new = getattr(start, name), getattr(end, name)
        if old == new:
            continue
        if isinstance(new, BaseModel):
            inner = changes(old, new) if type(old) is type(new) else leaves(canonical(new))
            found |= {f"{name}.{path}": value for path, value in inner.items()}
        else:
            found[name] = list(new) if isinstance(new, tuple) else new
    return found


@dataclass(frozen=True)
class Difference:
    """A row in which the sides differ, with both values; a value is None if the option does not exist on that side."""

    row: Row
    a: Any
    b: Any


def differences(a: Mapping[str, Any], b: Mapping[str, Any], rows: Sequence[Row] = ROWS) -> list[Difference]:
    """Return the rows in which two sides differ. An option that only one side has counts if it is not the default."""
    found = []
    for row in rows:
        has_a, has_b = row.is_active(a), row.is_active(b)
        if has_a and has_b and a[row.key] != b[row.key]:
            found.append(Difference(row, a[row.key], b[row.key]))
        elif has_a != has_b and (a if has_a else b)[row.key] != row.default:
            found.append(Difference(row, a[row.key] if has_a else None, b[row.key] if has_b else None))
    return found


def matching_rules(run: RunSpec, verdicts: Iterable[str] = ("refuse", "no effect", "warn")) -> tuple[Rule, ...]:
    """Return the rules of `frostbench.training.checks.conflicts` that apply to a run."""
    return tuple(rule for rule in RULES if rule.verdict in verdicts and rule.applies(run))


def disabled(values: Mapping[str, Any], rows: Sequence[Row] = ROWS) -> dict[str, str]:
    """Return those of some rows that a side cannot use in its current state, by key, with the reason.

    A row is disabled if every other value that is tried violates a rule that the current value does not: one that
    refuses the combination, or states that the option has no effect. Values that the spec itself rejects, such as
    initialisation from a file when no file is given, are not tried.

    Raises:
        SettingsError: a value of the side is not allowed.
    """
    current, tree = matching_rules(run_of(values)), tree_of(ROWS, values)
    found = {row.key: _reason(row, values, tree, current) for row in rows if row.is_active(values)}
    return {key: reason for key, reason in found.items() if reason}


def _reason(row: Row, values: Mapping[str, Any], tree: Tree, current: Sequence[Rule]) -> str:
    """Return why a side cannot use an active row, or ""; values are tried until one can be used."""
    reason = ""
    for value in other_values(row, values[row.key]):
        run = _run_with(tree, row, value)
        if run is not None:
            violated = _new_rules(run, current)
            if not violated:
                return ""
            reason = reason or violated[0].sentence
    return reason


def rows_of_rule(values: Mapping[str, Any], rule: Rule) -> tuple[str, ...]:
    """Return the keys of the changed rows that a rule is about: at their default it no longer applies."""
    found = []
    for row in ROWS:
        if row.is_active(values) and values[row.key] != row.default:
            try:
                run = run_of({**values, row.key: row.default})
            except SettingsError:
                continue
            if not rule.applies(run):
                found.append(row.key)
    return tuple(found)


def _run_with(tree: Tree, row: Row, value: Any) -> RunSpec | None:
    """Return the run of a side with another value of a row, or None if the spec rejects it."""
    try:
        return parse(RunSpec, with_changes(tree, {row.path: value}))
    except SettingsError:
        return None


def _new_rules(run: RunSpec, current: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in matching_rules(run, ("refuse", "no effect")) if rule not in current]


def bench_of(cache: str, run: RunSpec, seeds: Sequence[int], store: str, split: Tree, name: str) -> Tree:
    """Build the one-row bench that trains a side, from the nearest preset and the options that differ from it."""
    start, _ = nearest_preset(run)
    base = changes(preset_spec(start), run.model_copy(update={"seed": 0}))
    tree: Tree = {"name": name, "caches": [cache], "store": store, "preset": start, "base": base}
    return tree | {"seeds": list(seeds)} | ({"split": split} if split else {})
