"""Proposals about which settings to try: a five-line alternative, the edge of a grid, and one option at a time."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from frostbench.app.workbench.runs.next_steps.step import Facts, Step, macro_f1, things
from frostbench.benchmarks.runs.tuning_edges import edges
from frostbench.benchmarks.settings.parsing import SettingsError, leaves, parse, with_changes
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec

FIVE_LINES = ("logreg", "lda", "ridge")
"""Presets that scikit-learn gives in five lines."""
IDLE = ("train.optim.", "train.schedule.", "train.early_stop.")
"""Options that these presets do not have: they are solved, not trained in steps."""
MOST_OPTIONS = 3
"""Largest number of options that a sentence names."""
FEWEST_VALUES = 3
"""Number of values of an option that make a grid."""
MOST_VALUES = 50


def five_line_alternative(facts: Facts) -> Step | None:
    """Tell when a plain logistic regression, discriminant analysis or ridge regression is better than B."""
    known = [one for one in facts.settings if macro_f1(one) is not None and not one.members]
    plain = [one for one in known if one.preset in FIVE_LINES and all(c.path.startswith(IDLE) for c in one.changes)]
    others = [one for one in known if one.preset not in FIVE_LINES]
    subject = facts.subject.setting if facts.subject.setting in others else next(iter(others), None)
    if not plain or subject is None:
        return None
    best = max(plain, key=lambda one: macro_f1(one) or 0.0)
    score, own = macro_f1(best) or 0.0, macro_f1(subject) or 0.0
    if score <= own:
        return None
    return Step(
        id="five_line_alternative",
        title=f"{best.name} has {100 * score:.1f} macro F1, {subject.name} {100 * own:.1f}",
        text=f"{best.preset} is five lines of scikit-learn and takes {best.seconds:.1f} s. Use it, or find out what "
        f"{subject.name} does worse.",
        label="Compare",
        href=f"/compare?{urlencode({'store': best.store, 'a': subject.id, 'b': best.id})}",
    )


def edge_of_grid(facts: Facts) -> Step | None:
    """Tell when the best setting has the smallest or largest of the values of an option that were tried."""
    best = next((one for one in facts.settings if not one.members and macro_f1(one) is not None), None)
    winner = facts.specs.get(best.keys[0]) if best else None
    if best is None or winner is None:
        return None
    one_each = _one_per_value(facts.specs, winner)
    if not one_each:
        return None
    try:
        runs = {path: [_run(spec) for spec in specs] for path, specs in one_each.items()}
        found = [text for path, specs in runs.items() for text in edges([path], specs, _run(winner))]
    except SettingsError:  # options of another version
        return None
    if not found:
        return None
    return Step(
        id="edge_of_grid",
        title=f"The best setting is at the edge: {found[0]}",
        text=f"Values beyond it may be better still{_more(found)}. Load {best.name} and go further.",
        label="Load into Train",
        load={"a": best.id, "b": best.id},
    )


def several_options(facts: Facts) -> Step | None:
    """Tell when A and B differ in more than one option, so that nobody knows which of them matters."""
    if facts.b is None or facts.a.setting.members or facts.b.setting.members:
        return None
    a, b = (facts.specs.get(side.setting.keys[0], {}) for side in (facts.a, facts.b))
    paths = _without_consequences([path for path in dict.fromkeys([*b, *a]) if a.get(path) != b.get(path)])
    if len(paths) < 2:
        return None
    named = ", ".join(label_of(RunSpec, path) for path in paths[:MOST_OPTIONS])
    more = f" and {len(paths) - MOST_OPTIONS} more" if len(paths) > MOST_OPTIONS else ""
    return Step(
        id="several_options",
        title=f"A and B differ in {things(len(paths), 'option')}",
        text=f"{named}{more}. Try each alone to see which of them matters.",
        label="Load both into Train",
        load={"a": facts.a.setting.id, "b": facts.b.setting.id},
        set={"train": "changes"},
    )


def _without_consequences(paths: list[str]) -> list[str]:
    """Leave out the options of a kind that differs itself: they come with it.

    >>> _without_consequences(["train.ema", "head.body.kind", "head.body.hidden"])
    ['train.ema', 'head.body.kind']
    """
    kinds = tuple(path.removesuffix("kind") for path in paths if path.endswith(".kind"))
    return [path for path in paths if path.endswith(".kind") or not path.startswith(kinds)]


def _one_per_value(
    specs: Mapping[str, Mapping[str, Any]], winner: Mapping[str, Any]
) -> dict[str, list[Mapping[str, Any]]]:
    """Return a run for each value of each numeric option that has a grid, among runs of the same kinds as the winner.

    A run that does not state an option has its default.
    """
    kinds = {path: value for path, value in winner.items() if path.endswith(".kind")}
    alike = [spec for spec in specs.values() if {p: v for p, v in spec.items() if p.endswith(".kind")} == kinds]
    defaults = leaves(RunSpec().model_dump(mode="json"))
    found = {}
    for path in dict.fromkeys(path for spec in alike for path in spec if not path.endswith(".kind")):
        by_value = {spec.get(path, defaults.get(path)): spec for spec in alike if _is_number(spec, path, defaults)}
        if FEWEST_VALUES <= len(by_value) <= MOST_VALUES:
            found[path] = list(by_value.values())
    return found


def _is_number(spec: Mapping[str, Any], path: str, defaults: Mapping[str, Any]) -> bool:
    return type(spec.get(path, defaults.get(path))) in (int, float)


def _run(spec: Mapping[str, Any]) -> RunSpec:
    return parse(RunSpec, with_changes({}, dict(spec)))


def _more(found: list[str]) -> str:
    return f"; so it is with {', '.join(found[1:MOST_OPTIONS])}" if len(found) > 1 else ""
