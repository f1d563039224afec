"""The two sides of the page as plain values: presets, switches, differences, and what does not go together.

A side is a mapping from row keys of `ROWS` to control values. What a preset or a switch shows is read from these
values, never kept beside them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
"""Every option of a run but its seed, which is the page's: compared runs need the same seeds."""
CUSTOM = "custom"


@dataclass(frozen=True)
class Switch:
    """A name for a set of options with recommended values; it is on where the first of them is not neutral.

    Attributes:
        name: the method, as people call it.
        help: what it does, in one sentence.
        sets: dotted options and their recommended values, the one that switches it first.
        needs: options of other parts that it cannot do without.
        instead: dotted options that it takes the place of, and sets to their neutral values.
    """

    name: str
    help: str
    sets: Mapping[str, Any]
    needs: Mapping[str, Any]
    instead: Sequence[str] = ()

    def is_on(self, spec: RunSpec) -> bool:
        """Whether a run uses it."""
        path = next(iter(self.sets))
        return at(spec, path) != at(RunSpec(), path)


def switches() -> tuple[Switch, ...]:
    """The master switches, in the order of configs/switches/switches.yaml."""
    with resources.as_file(resources.files("frostbench.configs") / "switches" / "switches.yaml") as path:
        tree = load_yaml(path)
    return tuple(
        Switch(name, each["help"], each["sets"], each.get("needs", {}), each.get("instead", ()))
        for name, each in tree.items()
    )


def at(spec: BaseModel, path: str) -> Any:
    """The option at a dotted path; None under a kind that is not chosen."""
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def preset_spec(name: str) -> RunSpec:
    """The run that a preset stands for."""
    return parse(RunSpec, preset(name))


def run_of(values: Mapping[str, Any]) -> RunSpec:
    """The run that a side's controls stand for.

    Raises:
        SettingsError: a value is not allowed.
    """
    return spec_of(RunSpec, ROWS, values)


def with_preset(values: Mapping[str, Any], name: str) -> Values:
    """A side's controls filled by a preset; columns and background classes, which belong to the data, stay."""
    filled = values_of(ROWS, preset_spec(name))
    return filled | {key: values[key] for key in ("columns", "background") if key in values}


def with_switch(values: Mapping[str, Any], switch: Switch, on: bool) -> Values:
    """A side's controls with a switch set: on fills its recommended values, off its neutral ones.

    Raises:
        SettingsError: a value of the side is not allowed.
    """
    changes = _on(run_of(values), switch) if on else _neutral(switch.sets)
    run = parse(RunSpec, with_changes(merge(RunSpec().model_dump(mode="json"), tree_of(ROWS, values)), changes))
    shown = values_of(ROWS, run)
    return {row.key: shown[row.key] if row.is_active(shown) else values[row.key] for row in ROWS}


def _on(run: RunSpec, switch: Switch) -> Tree:
    """The options of a run that switching on changes, with their values."""
    needed = {path: value for path, value in switch.needs.items() if at(run, path) != value}
    there = [path for path in switch.instead if at(run, path) is not None]
    replaced = {path: value for path, value in _neutral(there).items() if at(run, path) != value}
    return needed | replaced | dict(switch.sets)


def _neutral(paths: Iterable[str]) -> Tree:
    """Dotted options at their neutral values, as settings; without those under kinds that are not neutral."""
    found = {path: at(RunSpec(), path) for path in paths}
    plain = {path: value.model_dump() if isinstance(value, BaseModel) else value for path, value in found.items()}
    return {path: value for path, value in plain.items() if value is not None}


Changed = Mapping[str, Sequence[Any]]
"""Rows that a switch changed, by key: what each held before and what it was given."""


def changed_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The rows in which a side's controls differ from before, each with both values."""
    return {row.key: [before[row.key], after[row.key]] for row in ROWS if before[row.key] != after[row.key]}


def given_back(values: Mapping[str, Any], changed: Changed) -> Values:
    """The rows that a switch changed as they were before, save those that were set otherwise since."""
    keys = {row.key for row in ROWS}
    return {key: old for key, (old, new) in changed.items() if key in keys and values[key] == new}


def nearest_preset(run: RunSpec) -> tuple[str, bool]:
    """The preset from which a run differs in the fewest options, and whether it is that preset; data options aside."""
    plain = run.model_copy(update={"columns": (), "background": (), "seed": 0})
    distance = {name: len(changes(preset_spec(name), plain)) for name in preset_names()}
    best = min(distance, key=lambda name: distance[name])
    return best, distance[best] == 0


def changes(start: BaseModel, end: BaseModel) -> Tree:
    """Dotted options that turn one spec into another of its type.

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
    """A row in which the sides differ, with what each shows; None where the option does not exist on that side."""

    row: Row
    a: Any
    b: Any


def differences(a: Mapping[str, Any], b: Mapping[str, Any], rows: Sequence[Row] = ROWS) -> list[Difference]:
    """Rows in which two sides differ. An option that only one side has counts where it is not at its default."""
    found = []
    for row in rows:
        has_a, has_b = row.is_active(a), row.is_active(b)
        if has_a and has_b and a[row.key] != b[row.key]:
            found.append(Difference(row, a[row.key], b[row.key]))
        elif has_a != has_b and (a if has_a else b)[row.key] != row.default:
            found.append(Difference(row, a[row.key] if has_a else None, b[row.key] if has_b else None))
    return found


def met(run: RunSpec, verdicts: Iterable[str] = ("refuse", "no effect", "warn")) -> tuple[Rule, ...]:
    """The rules of `frostbench.training.checks.conflicts` that apply to a run."""
    return tuple(rule for rule in RULES if rule.verdict in verdicts and rule.applies(run))


def disabled(values: Mapping[str, Any], rows: Sequence[Row] = ROWS) -> dict[str, str]:
    """Rows that a side cannot use as it stands, by key, with the reason in words.

    A row is out of use where every other value that is tried meets a rule that the present one does not: one that
    refuses the combination, or says that the option then has no effect. Values that the spec itself refuses beside the
    present ones, such as a start from a file that is not named, are not tried.

    Raises:
        SettingsError: a value of the side is not allowed.
    """
    now, tree = met(run_of(values)), tree_of(ROWS, values)
    found = {}
    for row in rows:
        if row.is_active(values):
            others = [_run_with(tree, row, value) for value in other_values(row, values[row.key])]
            tried = [_new_rules(run, now) for run in others if run is not None]
            if tried and all(tried):
                found[row.key] = tried[0][0].sentence
    return found


def _run_with(tree: Tree, row: Row, value: Any) -> RunSpec | None:
    """The run of a side with another value of a row; None where the spec refuses it."""
    try:
        return parse(RunSpec, with_changes(tree, {row.path: value}))
    except SettingsError:
        return None


def _new_rules(run: RunSpec, now: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in met(run, ("refuse", "no effect")) if rule not in now]


def bench_of(cache: str, run: RunSpec, seeds: Sequence[int], store: str, split: Tree, name: str) -> Tree:
    """The bench of one row that trains a side: the nearest preset and the options that differ from it."""
    start, _ = nearest_preset(run)
    base = changes(preset_spec(start), run.model_copy(update={"seed": 0}))
    tree: Tree = {"name": name, "caches": [cache], "store": store, "preset": start, "base": base}
    return tree | {"seeds": list(seeds)} | ({"split": split} if split else {})
