"""What the form shows of its values: errors, notes, options that cannot be used, and switches."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from frostbench.app.cache_notes import about_cache, names_in_cache, notes_on_corrections
from frostbench.app.sides import ROWS, disabled, matching_rules, rows_of_rule, run_of, switches
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.train.errors import field_errors
from frostbench.app.workbench.train.form import (
    MOST_SEEDS,
    SIDES,
    SPLIT_ROWS,
    Form,
    read_form,
    set_switch,
    training_share,
)
from frostbench.app.workbench.train.options import DATA_KEYS
from frostbench.app.workbench.train.words import in_words
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.parsing import AUTO
from frostbench.embedcache.labels.corrections import LabelError, labels_file, read_corrections
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.training.run import RunSpec

_BY_KEY = {row.key: row for row in ROWS}
_DATA_ROWS = tuple(_BY_KEY[key] for key in DATA_KEYS)


@dataclass(frozen=True)
class Sent:
    """A form as the page sent it.

    Attributes:
        form: values of both sides.
        is_auto: whether preset auto chooses side A's configuration.
        is_corrected: whether the label corrections beside the caches are used.
    """

    form: Form
    is_auto: bool
    is_corrected: bool


def read_sent(request: Any) -> Sent:
    """Parse a request that holds a form.

    Raises:
        ValueError: it has another form.
    """
    if not isinstance(request, Mapping) or not isinstance(request.get("form"), Mapping):
        raise RequestError("The page did not send its form. Reload the page.")
    return Sent(read_form(request["form"]), request.get("auto") is True, request.get("corrected") is True)


def check_form(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return what the page shows of a form, after turning a switch on or off if the request says so.

    Args:
        request: `form`, `auto`, `visible` (keys of the rows whose usability is shown) and, to turn a switch,
            `switch` with `side`, `name` and `on`.
        workspace: workspace of the page.

    Raises:
        ValueError: the request has another form, or a switch cannot be turned with the values of its side.
    """
    sent = read_sent(request)
    turned = _turned(sent.form, request.get("switch"), workspace)
    form = turned or sent.form
    visible = tuple(_BY_KEY[key] for key in request.get("visible") or () if key in _BY_KEY)
    shared = shared_errors(form, workspace)
    reply: dict[str, Any] = {"shared": shared, "sides": {}}
    for side in SIDES:
        is_auto = sent.is_auto and side == "A"
        reply["sides"][side] = check_side(form, side, is_auto, visible, not shared, workspace)
    if turned is not None:
        reply |= {"values": dict(turned.sides), "switched": dict(turned.switched)}
    return reply


def _turned(form: Form, wanted: Any, workspace: Workspace) -> Form | None:
    if wanted is None:
        return None
    names = {switch.name: switch for switch in switches()}
    if not isinstance(wanted, Mapping) or wanted.get("side") not in SIDES or wanted.get("name") not in names:
        raise RequestError(f"A switch must be one of {list(names)} of side A or B, got {wanted!r}. Reload the page.")
    side = wanted["side"]
    if errors := field_errors(RunSpec, ROWS, form.sides[side], workspace):
        field = next(iter(errors))
        title = _BY_KEY[field].label if field else "a combination of options"
        raise RequestError(f"{wanted['name']} can be switched once {title} of side {side} is corrected.")
    return set_switch(form, side, names[wanted["name"]], bool(wanted.get("on")))


def shared_errors(form: Form, workspace: Workspace) -> dict[str, str]:
    """Return errors of the values that both sides share: `seeds`, and split options by key."""
    found: dict[str, str] = {}
    seeds: Any = form.seeds
    if type(seeds) is not int or not 1 <= seeds <= MOST_SEEDS:
        given = "nothing" if seeds in (None, "") else seeds
        found["seeds"] = (
            f"This must be a whole number from 1 to {MOST_SEEDS}, and {given} is not. Enter one, such as 3."
        )
    return found | field_errors(SplitSpec, SPLIT_ROWS, form.split, workspace)


def check_side(
    form: Form, side: str, is_auto: bool, visible: Sequence[Any], has_split: bool, workspace: Workspace
) -> dict[str, Any]:
    """Return errors, notes, unusable rows and switches of a side."""
    values = form.sides[side]
    errors: dict[str, str] = {}
    if values["cache"] not in workspace.cache_names():
        errors["cache"] = "This side needs a data set. Choose one at the top."
    unknown = _unknown_names(values, workspace) if not errors else {}
    rows = _DATA_ROWS if is_auto else ROWS
    errors |= field_errors(RunSpec, rows, values, workspace) | unknown
    if is_auto or any(key not in ("cache", *unknown) for key in errors):
        return {"errors": errors, "notes": [], "disabled": {}, "switches": {}}
    run = run_of(values)
    settings = run.model_dump(mode="json")
    notes = []
    for rule in matching_rules(run):
        text, keys = in_words(rule.sentence, settings), rows_of_rule(values, rule)
        notes.append({"text": text, "keys": list(keys), "refused": rule.verdict == "refuse"})
    if has_split and "cache" not in errors:
        share = training_share(form)
        for sentence in notes_on_corrections(run, values["cache"], share, workspace):
            notes.append({"text": in_words(sentence, settings), "keys": _rows_in(sentence, values), "refused": False})
    return {
        "errors": errors,
        "notes": notes,
        "disabled": unusable(values, visible, settings),
        "switches": {switch.name: switch.is_on(run) for switch in switches()},
    }


def _unknown_names(values: Mapping[str, Any], workspace: Workspace) -> dict[str, str]:
    """Return errors of names that a side's cache does not have."""
    found, names = {}, names_in_cache(values["cache"], workspace)
    for key, known in names.items():
        missing = [name for name in values[key] if name not in known] if isinstance(values[key], list) else []
        if missing:
            choice = (
                f"Choose from {', '.join(known[:12])}" if known else "It has none of these, so leave the field empty"
            )
            found[key] = f"The data set has no {', '.join(map(str, missing))}. {choice}."
    return found


def _rows_in(sentence: str, values: Mapping[str, Any]) -> list[str]:
    """Return the keys of the changed rows whose path, or the start of it, is the first that a sentence names."""
    active = [row for row in ROWS if row.is_active(values) and values[row.key] != row.default]
    for word in sentence.replace(",", " ").split():
        found = [row.key for row in active if row.path == word or row.path.startswith(f"{word}.")]
        if found and "." in word:
            return found
    return (
        [row.key for row in active if row.path == "train.loss.class_weight.kind"] if "class weights" in sentence else []
    )


def unusable(values: Mapping[str, Any], rows: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the reason for each of some rows that a side cannot use, by key; computed once for the same values."""
    text = json.dumps({key: values[key] for key in _BY_KEY})
    reasons = _reasons(text, tuple(row.key for row in rows))
    return {key: in_words(reason, settings) for key, reason in reasons.items()}


@lru_cache(maxsize=500)
def _reasons(values: str, keys: tuple[str, ...]) -> dict[str, str]:
    return disabled(json.loads(values), [_BY_KEY[key] for key in keys])


def about_data(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return one line about a cache, the names in it that options take, and its number of label corrections.

    Raises:
        RequestError: the page has no such cache.
    """
    name = request.get("cache") if isinstance(request, Mapping) else None
    if name not in workspace.cache_names():
        raise RequestError(f"The page has no data set {name!r}. Reload the page.")
    about, file = about_cache(str(name), workspace), labels_file(workspace.cache(str(name)))
    try:
        corrections = len({one.id for one in read_corrections(file)}) if file.is_file() else 0
    except (LabelError, OSError) as error:
        corrections, about = 0, f"{about}. Its checked labels cannot be read: {error}"
    return {"about": about, "names": names_in_cache(str(name), workspace), "corrections": corrections}


def reasons_not_to_train(sent: Sent, sides: Sequence[str], workspace: Workspace) -> list[str]:
    """Return why sides cannot be trained with a form's values; empty if they can."""
    found = [f"{_title(key, shared=True)}: {text}" for key, text in shared_errors(sent.form, workspace).items()]
    for side in sides:
        state = check_side(sent.form, side, sent.is_auto and side == "A", (), False, workspace)
        found += [f"{side}, {_title(key)}: {text}" for key, text in state["errors"].items()]
        found += [f"{side}: {note['text']}" for note in state["notes"] if note["refused"]]
    if sent.is_auto and "A" in sides and sent.form.sides["A"]["shots"] not in (0, None):
        found.append(f"A: {AUTO} chooses on all training images. Set “{_BY_KEY['shots'].label}” of A to 0.")
    return found


def _title(key: str, shared: bool = False) -> str:
    if key in ("cache", "seeds", ""):
        return {"cache": "Data set", "seeds": "Seeds", "": "options together"}[key]
    return next(row.label for row in (SPLIT_ROWS if shared else ROWS) if row.key == key)
