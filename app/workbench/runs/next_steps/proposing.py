"""Gathers what the rules need to know, and asks them all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frostbench.app.reveals import revealed_keys
from frostbench.app.workbench.background import Background
from frostbench.app.workbench.data.answers import known_checks
from frostbench.app.workbench.data.labels import current_labels
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.marking import chosen_settings
from frostbench.app.workbench.runs.next_steps import choice_rules, data_rules, evidence_rules
from frostbench.app.workbench.runs.next_steps.step import Facts, Rule, Side, macro_f1
from frostbench.app.workbench.runs.places import page_name
from frostbench.app.workbench.runs.run_list import Setting, list_settings
from frostbench.app.workbench.runs.stored import stored_runs
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import StoreError, read_record

RULES: tuple[Rule, ...] = (
    data_rules.near_copies,
    data_rules.labels_to_check,
    data_rules.unchecked_data,
    evidence_rules.more_seeds_or_images,
    evidence_rules.validation_and_test,
    choice_rules.five_line_alternative,
    data_rules.no_groups,
    evidence_rules.calibrate,
    choice_rules.edge_of_grid,
    choice_rules.several_options,
    data_rules.small_classes,
)
"""All rules, the most important first."""


def next_steps(request: Any, workspace: Workspace, background: Background) -> dict[str, Any]:
    """Return what to do next about two settings of the same data, the most important first.

    Args:
        request: `store`, `a` (id of the setting that others are compared with) and `b` (id of another one, or "" for
            the best other one).
        workspace: workspace of the page.
        background: holds what the tab Data found in the caches.

    Raises:
        RequestError: the request has another form, or names a setting that the store does not have.
        StoreError: a record cannot be read.
    """
    if not isinstance(request, Mapping):
        raise RequestError("Proposals need a store and the settings a and b, as the page sends them.")
    store = store_of(request, workspace)
    facts = gather(store, [request.get("a"), request.get("b") or ""], workspace, background)
    return {"steps": [vars(step) for rule in RULES if (step := rule(facts)) is not None]}


def gather(store: Path, ids: Sequence[Any], workspace: Workspace, background: Background) -> Facts:
    """Return what the rules know about settings A and B; an empty id of B stands for the best other setting."""
    (a,) = chosen_settings(store, [ids[0]])
    settings = tuple(setting for setting in list_settings([store])[0] if setting.data == a.data)
    b = chosen_settings(store, [ids[1]])[0] if ids[1] else _best_other(settings, a)
    if b is not None and b.data != a.data:
        raise RequestError(f"The settings {a.id} and {b.id} have other data. Reload the page.")
    cache = page_name(a.cache, store, workspace)
    runs = {run.key: run.spec for run in stored_runs(store).read()[0]}
    copies, suspects, checked = _data(Path(cache), background) if cache else (None, None, 0)
    return Facts(
        cache=cache,
        a=_side(store, a),
        b=None if b is None else _side(store, b),
        settings=settings,
        copies=copies,
        suspects=suspects,
        checked=checked,
        difference=None if b is None else _difference(store, a, b),
        revealed=revealed_keys(store),
        specs={key: runs[key] for setting in settings if not setting.members for key in setting.keys if key in runs},
    )


def _data(folder: Path, background: Background) -> tuple[tuple[int, int] | None, int | None, int]:
    """Return near-copies and held-out images, labels to check, and checked labels, as far as they are known."""
    labels, checks = current_labels(folder), known_checks(folder, background)
    if checks is None:
        return None, None, len(labels.checked)
    ids = labels.table.ids
    left = sum(ids[row] not in labels.checked for row in checks["suspects"]["rows"])
    held = sum(role["rows"] for role in checks["roles"])
    return (len(checks["copies"]["rows"]), held) if held else None, left, len(labels.checked)


def _best_other(settings: Sequence[Setting], a: Setting) -> Setting | None:
    """Return the best setting with the seeds of A, or the best one if none has them."""
    others = [one for one in settings if one != a and not one.members and macro_f1(one) is not None]
    return next((one for one in others if one.seeds == a.seeds), next(iter(others), None))


def _side(store: Path, setting: Setting) -> Side:
    return Side(setting, tuple(read_record(store, key) for key in setting.keys))


def _difference(store: Path, a: Setting, b: Setting) -> dict[str, Any] | None:
    """Return the difference of B against A in validation macro F1, or None if they cannot be compared."""
    from frostbench.benchmarks.comparison.compare import compare

    if a.seeds != b.seeds:
        return None
    try:
        found = compare(store, {"a": a.keys, "b": b.keys}, "a", "select")
    except StoreError:
        return None
    line = found.line("b", "macro_f1_fg")
    names = ("delta", "low", "high", "verdict", "more_groups", "more_seeds")
    return {name: line[name] for name in names} | {"has_groups": found.n_groups < found.n_rows}
