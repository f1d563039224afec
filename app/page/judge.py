"""What the form's script asks the server after each change: what the values now stand for, and what does not go."""

from dataclasses import replace
from typing import Any

import torch

from frostbench.app.forms import spec_of
from frostbench.app.page.job_text import fingerprint
from frostbench.app.page.pieces import difference_html, reasons_html
from frostbench.app.page.state import (
    CACHE_ROW,
    SIDES,
    SPLIT_ROWS,
    Form,
    View,
    bench_for,
    check_files,
    read_form,
    restored,
    view,
)
from frostbench.app.sides import CUSTOM, ROWS, Switch, changed_rows, given_back, switches, with_preset, with_switch
from frostbench.app.workspace import Workspace
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.training.checks.corrections import correction_notes

VIEW_ROWS = {"view_sets": "train", "tta": "eval"}
"""Rows that take names of view sets, and the role of the sets that they take."""


def judge(asked: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The form after an act, and all that the page shows of it; `error` where the act is not possible.

    Args:
        asked: `form` as the page has it, `act` as one of restore, input, preset (with side and name), switch (with
            side, name and on) and copy.
        workspace: what caches there are.
    """
    try:
        form = _after(asked, workspace)
        return {"form": form.as_tree(), "error": None} | _shown(form, _with_cancelled(form, workspace), workspace)
    except (ValueError, OSError) as error:
        return {"error": str(error)}


def _after(asked: dict[str, Any], workspace: Workspace) -> Form:
    act, tree = asked.get("act"), asked.get("form")
    if act == "restore":
        return restored(tree, workspace)
    form = read_form(tree)
    if act == "copy":
        return form.with_side("B", form.sides["A"]).with_switched("B", form.switched.get("A", {}))
    side = asked.get("side")
    if act == "preset" and side in SIDES and asked["name"] != CUSTOM:
        return form.with_side(side, with_preset(form.sides[side], str(asked["name"]))).with_switched(side, {})
    if act == "switch" and side in SIDES:
        (switch,) = (each for each in switches() if each.name == asked["name"])
        check_files(ROWS, form.sides[side], workspace)
        return _switch(form, side, switch, bool(asked["on"]))
    return form


def _switch(form: Form, side: str, switch: Switch, on: bool) -> Form:
    """The form with a switch of a side set; switching off gives back what switching on had changed."""
    values, known = form.sides[side], dict(form.switched.get(side, {}))
    then = with_switch(values, switch, on)
    if on:
        known[switch.name] = changed_rows(values, then)
        return form.with_side(side, then).with_switched(side, known)
    changed = known.pop(switch.name, {})
    return form.with_side(side, then | given_back(values, changed)).with_switched(side, known)


def _shown(form: Form, seen: View, workspace: Workspace) -> dict[str, Any]:
    return {
        "difference": difference_html(seen),
        "differs": [each.row.key for each in seen.differences],
        "disabled": {side: list(seen.disabled[side]) for side in SIDES},
        "inactive": {side: sorted(seen.inactive[side]) for side in SIDES},
        "reasons": reasons_html((CACHE_ROW, *ROWS), seen),
        "presets": {side: name if exact else CUSTOM for side, (name, exact) in seen.presets.items()},
        "switches": seen.switches,
        "asks": {side: _asks(form, seen, side, workspace) for side in SIDES},
        "caches": workspace.cache_names(),
        "names": {side: _names(form, side, workspace) for side in SIDES},
        "about": {side: _about(form, side, workspace) for side in SIDES},
    }


def _with_cancelled(form: Form, workspace: Workspace) -> View:
    """What follows from the form, with corrections of the class frequencies that cancel on the cache of a side.

    Class sizes are those of the cache times the share of rows that train.
    """
    seen = view(form, workspace)
    share = 1 - sum(spec_of(SplitSpec, SPLIT_ROWS, form.split).shares.values()) if not any(seen.errors.values()) else 1
    told = {}
    for side, run in seen.runs.items():
        name = form.sides[side]["cache"]
        if run is not None and name in workspace.cache_names():
            counts = torch.tensor([round(share * n) for n in workspace.facts(name).classes.values()], dtype=torch.int64)
            told[side] = correction_notes(run, torch.arange(len(counts)).repeat_interleave(counts), len(counts))
    return replace(seen, warnings={side: notes + told.get(side, ()) for side, notes in seen.warnings.items()})


def _asks(form: Form, seen: View, side: str, workspace: Workspace) -> str:
    """The fingerprint of what a side would train; empty where it cannot be trained."""
    run = seen.runs[side]
    return "" if run is None or seen.errors[side] else fingerprint(bench_for(form, run, side, workspace))


def _names(form: Form, side: str, workspace: Workspace) -> dict[str, list[str]]:
    """What a side's cache has to offer to the rows that take names."""
    name = form.sides[side]["cache"]
    none: dict[str, list[str]] = {"columns": [], "background": [], "view_sets": [], "tta": []}
    if name not in workspace.cache_names():
        return none
    try:
        facts, sets = workspace.facts(name), workspace.view_sets(name)
    except (ValueError, OSError):
        # `_about` says why, and the page stays usable: another cache can be chosen.
        return none
    views = {row: [one for one, role in sets.items() if role == own] for row, own in VIEW_ROWS.items()}
    return {"columns": list(facts.columns), "background": list(facts.classes)} | views


def _about(form: Form, side: str, workspace: Workspace) -> str:
    """A line on a side's cache, as plain text."""
    name = form.sides[side]["cache"]
    if name not in workspace.cache_names():
        return ""
    try:
        facts = workspace.facts(name)
    except (ValueError, OSError) as error:
        return f"This cache cannot be read: {error}"
    counts = [n for n in facts.classes.values() if n]
    sizes = " to ".join(f"{n:,}" for n in sorted({min(counts), max(counts)})) if counts else ""
    spread = f"{sizes} images each" if sizes else "no images"
    columns = "; ".join(f"{column}: {what}" for column, what in facts.columns.items())
    return f"{facts.images:,} images, {len(facts.classes):,} classes of {spread}. {columns}"
