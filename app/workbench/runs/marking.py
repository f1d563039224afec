"""Requests that name, tag, star, annotate or pin settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.runs.marks import SIDES, Mark, Marks, as_tree, change_marks, with_pin
from frostbench.app.workbench.runs.run_list import Setting, list_settings
from frostbench.app.workspace import Workspace

MOST_LETTERS, MOST_TAG_LETTERS, MOST_NOTE_LETTERS = 120, 40, 5000
MOST_TAGS = 20
FIELDS = {"name", "star", "note", "add_tags", "remove_tags"}


def mark(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Change the marks of settings, and return them by setting.

    Args:
        request: `store`, `ids` of its settings, and `change` with any of `name`, `star`, `note`, `add_tags` and
            `remove_tags`.
        workspace: workspace of the page.

    Raises:
        RequestError: the request has another form, or names a setting that the store does not have.
        MarkError: the marks cannot be kept.
    """
    store, change = _store_and_change(request, workspace)
    chosen = chosen_settings(store, request.get("ids"))
    if "name" in change and len(chosen) != 1:
        raise RequestError(f"A name is given to one setting, got {len(chosen)}. Name them one by one.")

    def apply(marks: Marks) -> Marks:
        if change.get("name"):
            _check_unique(marks, chosen[0].entry, change["name"])
        changed = {setting.entry: _changed(marks.of(setting.entry), change) for setting in chosen}
        return replace(marks, settings=dict(marks.settings) | changed)

    marks, aside = change_marks(store, apply)
    return {"marks": {setting.id: as_tree(marks.of(setting.entry)) for setting in chosen}, "problem": aside}


def pin(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Pin a setting as side A or B of its data, or take a pin away if `id` is ""; return the pins of the data.

    Raises:
        RequestError: the request has another form, or names a setting that the store does not have.
        MarkError: the pin cannot be kept.
    """
    if not isinstance(request, Mapping) or request.get("side") not in SIDES or not isinstance(request.get("data"), str):
        raise RequestError("A pin needs store, data, a side (a or b) and the id of a setting, as the page sends them.")
    store, data, side = store_of(request, workspace), request["data"], str(request["side"])
    settings = [setting for setting in list_settings([store])[0] if setting.data == data]
    entry = ""
    if request.get("id") != "":
        (found,) = chosen_settings(store, [request.get("id")])
        if found.data != data:
            raise RequestError(f"The setting {found.id} has other data than {data!r}. Reload the page.")
        entry = found.entry
    marks, aside = change_marks(store, lambda marks: with_pin(marks, data, side, entry))
    return {"pins": pins_of(marks, settings), "problem": aside}


def pins_of(marks: Marks, settings: Sequence[Setting]) -> dict[str, dict[str, str]]:
    """Return the pinned settings of one store by data and side; pins of settings that are gone are left out."""
    of_entry = {setting.entry: setting.id for setting in settings}
    return {
        data: {side: of_entry[entry] for side, entry in sides.items() if entry in of_entry}
        for data, sides in marks.pins.items()
    }


def chosen_settings(store: Path, ids: Any) -> list[Setting]:
    """Return settings of a store by id.

    Raises:
        RequestError: the ids are no list, or the store does not have one of them.
    """
    if not isinstance(ids, list) or not ids or not all(isinstance(one, str) for one in ids):
        raise RequestError("A request about settings needs their ids, as the page sends them.")
    of_id = {setting.id: setting for setting in list_settings([store])[0]}
    if missing := [one for one in ids if one not in of_id]:
        raise RequestError(f"The store {store} has no setting {missing[0]!r}. Reload the page.")
    return [of_id[one] for one in dict.fromkeys(ids)]


def _store_and_change(request: Any, workspace: Workspace) -> tuple[Path, dict[str, Any]]:
    if not isinstance(request, Mapping) or not isinstance(request.get("change"), Mapping):
        raise RequestError("Marking settings needs store, ids and change, as the page sends them.")
    change = dict(request["change"])
    if not change or not set(change) <= FIELDS or not isinstance(change.get("star", True), bool):
        raise RequestError(f"A change must state some of {sorted(FIELDS)}, got {sorted(map(str, change))}.")
    if "name" in change:
        change["name"] = _line(change["name"], "The name of a setting", MOST_LETTERS)
    if "note" in change:
        change["note"] = _note(change["note"])
    for field in ("add_tags", "remove_tags"):
        if field in change:
            change[field] = _tags(change[field])
    return store_of(request, workspace), change


def _line(text: Any, what: str, most: int) -> str:
    if not isinstance(text, str) or len(text) > most or not text.isprintable():
        shown = text[:50] if isinstance(text, str) else text
        raise RequestError(f"{what} has at most {most} visible characters on one line, got {shown!r}. Change it.")
    return text.strip()


def _note(text: Any) -> str:
    if not isinstance(text, str) or len(text) > MOST_NOTE_LETTERS:
        length = f"{len(text):,} characters" if isinstance(text, str) else repr(text)[:50]
        raise RequestError(f"A note has at most {MOST_NOTE_LETTERS:,} characters, got {length}. Shorten it.")
    return text.strip()


def _tags(tags: Any) -> list[str]:
    if not isinstance(tags, list):
        raise RequestError(f"Tags must be a list, got {tags!r}.")
    found = [_line(tag, "A tag", MOST_TAG_LETTERS) for tag in tags]
    if wrong := [tag for tag in found if not tag or "," in tag]:
        raise RequestError(f"A tag is a word or some words without a comma, got {wrong[0]!r}. Change it.")
    return found


def _changed(mark: Mark, change: Mapping[str, Any]) -> Mark:
    removed = {tag.casefold() for tag in change.get("remove_tags", ())}
    tags = {tag.casefold(): tag for tag in change.get("add_tags", ())} | {tag.casefold(): tag for tag in mark.tags}
    kept = tuple(sorted((tag for folded, tag in tags.items() if folded not in removed), key=str.casefold))
    if len(kept) > MOST_TAGS:
        raise RequestError(f"A setting has at most {MOST_TAGS} tags, got {len(kept)}. Remove some first.")
    plain = {field: change[field] for field in ("name", "star", "note") if field in change}
    return replace(mark, tags=kept, **plain)


def _check_unique(marks: Marks, entry: str, name: str) -> None:
    if any(other.name == name for one, other in marks.settings.items() if one != entry):
        raise RequestError(f"A name belongs to one setting of a store, and another one has {name!r}. Choose another.")
