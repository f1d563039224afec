"""The server's reply to each change of the form: the new form and all that the page shows of it."""

from dataclasses import replace
from typing import Any

from frostbench.app.cache_notes import about_cache, names_in_cache, notes_on_corrections
from frostbench.app.forms import spec_of
from frostbench.app.page.form import CACHE_ROW, SIDES, SPLIT_ROWS, Form, read_form, restore_form
from frostbench.app.page.job_text import fingerprint
from frostbench.app.page.pieces import difference_html, reasons_html
from frostbench.app.page.state import View, bench_for, check_files, view
from frostbench.app.sides import CUSTOM, ROWS, Switch, changed_rows, switches, undo_changes, with_preset, with_switch
from frostbench.app.workspace import Workspace
from frostbench.embedcache.splits.spec import SplitSpec


def update_form(request: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Return the form after an act and all that the page shows of it, or an `error` if the act is not possible.

    Args:
        request: `form` as on the page, and `act`: restore, input, copy, preset (with side and name), or switch (with
            side, name and on).
        workspace: the caches and files that the page may use.
    """
    try:
        form = _after(request, workspace)
        seen = _with_correction_notes(form, view(form, workspace), workspace)
        return {"form": form.as_tree(), "error": None} | _reply(form, seen, workspace)
    except (ValueError, OSError) as error:
        return {"error": str(error)}


def _after(request: dict[str, Any], workspace: Workspace) -> Form:
    act, tree = request.get("act"), request.get("form")
    if act == "restore":
        return restore_form(tree, workspace)
    form = read_form(tree)
    if act == "copy":
        return form.with_side("B", form.sides["A"]).with_switched("B", form.switched.get("A", {}))
    side = request.get("side")
    if act == "preset" and side in SIDES and request["name"] != CUSTOM:
        return form.with_side(side, with_preset(form.sides[side], str(request["name"]))).with_switched(side, {})
    if act == "switch" and side in SIDES:
        (switch,) = (known for known in switches() if known.name == request["name"])
        check_files(ROWS, form.sides[side], workspace)
        return set_switch(form, side, switch, bool(request["on"]))
    return form


def set_switch(form: Form, side: str, switch: Switch, on: bool) -> Form:
    """Return the form with a switch of a side set; turning it off restores what turning it on had changed."""
    before, record = form.sides[side], dict(form.switched.get(side, {}))
    after = with_switch(before, switch, on)
    if on:
        record[switch.name] = changed_rows(before, after)
        return form.with_side(side, after).with_switched(side, record)
    changed = record.pop(switch.name, {})
    return form.with_side(side, after | undo_changes(before, changed)).with_switched(side, record)


def _reply(form: Form, seen: View, workspace: Workspace) -> dict[str, Any]:
    return {
        "difference": difference_html(seen),
        "differs": [difference.row.key for difference in seen.differences],
        "disabled": {side: list(seen.disabled[side]) for side in SIDES},
        "inactive": {side: sorted(seen.inactive[side]) for side in SIDES},
        "reasons": reasons_html((CACHE_ROW, *ROWS), seen),
        "presets": {side: name if exact else CUSTOM for side, (name, exact) in seen.presets.items()},
        "switches": seen.switches,
        "fingerprints": {side: _fingerprint(form, seen, side, workspace) for side in SIDES},
        "caches": workspace.cache_names(),
        "names": {side: names_in_cache(form.sides[side]["cache"], workspace) for side in SIDES},
        "about": {side: about_cache(form.sides[side]["cache"], workspace) for side in SIDES},
    }


def _with_correction_notes(form: Form, seen: View, workspace: Workspace) -> View:
    """Add warnings about class-frequency corrections that cancel each other on a side's cache."""
    share = training_share(form) if not any(seen.errors.values()) else 1.0
    notes = {
        side: notes_on_corrections(run, form.sides[side]["cache"], share, workspace)
        for side, run in seen.runs.items()
        if run is not None
    }
    return replace(seen, warnings={side: others + notes.get(side, ()) for side, others in seen.warnings.items()})


def training_share(form: Form) -> float:
    """Return the share of training rows that a form's split asks for. Raises SettingsError for invalid values."""
    return 1 - sum(spec_of(SplitSpec, SPLIT_ROWS, form.split).shares.values())


def _fingerprint(form: Form, seen: View, side: str, workspace: Workspace) -> str | None:
    """Return the fingerprint of what a side would train, or None, which equals no job's, if it cannot be trained."""
    run = seen.runs[side]
    return None if run is None or seen.errors[side] else fingerprint(bench_for(form, run, side, workspace))
