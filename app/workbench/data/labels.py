"""The labels of a cache with the corrections beside it, and further corrections by a person."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.tables import whole_table_of
from frostbench.embedcache.labels.corrections import Correction, add_corrections, labels_file, read_corrections
from frostbench.embedcache.labels.relabelling import Changes, corrected
from frostbench.embedcache.names import check_names
from frostbench.embedcache.table import FeatureTable

LEFT_OUT, NO_LABEL = -1, -2
MOST_CHANGES = 10_000
"""Largest number of images that one request may correct."""
MOST_LETTERS = 200
"""Largest length of a class name or a person's name."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a cache's images as they are now.

    Attributes:
        table: all rows of the cache, with its labels.
        class_names: classes of the cache, and behind them those of the corrections.
        now: index into `class_names` of each image, int64 [N]; -1 if it is left out, -2 if it has no label.
        file: file of corrections beside the cache, which need not exist.
        changes: what the corrections do.
        checked: label, or "", that the last correction of an image states, by id.
    """

    table: FeatureTable
    class_names: tuple[str, ...]
    now: npt.NDArray[np.int64]
    file: Path
    changes: Changes
    checked: Mapping[str, str]

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """Index into `class_names` of each image in the cache, int64 [N]; -2 if it has no label there."""
        return np.where(self.table.labels < 0, NO_LABEL, self.table.labels)


def current_labels(folder: Path) -> Labels:
    """Return the labels of a cache with the corrections beside it.

    Raises:
        CacheError: the cache cannot be read.
        LabelError: the corrections cannot be read, or do not fit the cache.
    """
    table, file = whole_table_of(folder), labels_file(folder)
    lines = read_corrections(file) if file.is_file() else ()
    names, kept, changes = corrected(table, lines)
    added = sorted({*names[kept].tolist()} - {*table.class_names, ""})
    classes = (*table.class_names, *added)
    place = {name: number for number, name in enumerate(classes)} | {"": NO_LABEL}
    now = np.array([place[name] if keep else LEFT_OUT for name, keep in zip(names, kept, strict=True)], dtype=np.int64)
    return Labels(table, classes, now, file, changes, {one.id: one.new for one in lines})


def correct(folder: Path, changes: Any, who: Any) -> Labels:
    """Add corrections to the file beside a cache, and return the labels as they are then.

    Args:
        folder: the cache.
        changes: class by image id: a new one, its present one to confirm it, or "" to leave the image out.
        who: name of the person, or "".

    Raises:
        RequestError: changes or who have another form, an image is not in the cache, or a name is no class name.
        LabelError: the file cannot be read or written to.
        OSError: the file cannot be written.
    """
    found, who = _checked(changes), _name(who, "A person")
    before = current_labels(folder)
    place = {image: row for row, image in enumerate(before.table.ids.tolist())}
    lines = []
    for image, new in found.items():
        if image not in place:
            raise RequestError(f"The cache {folder} has no image {image!r}. Reload the page.")
        row = place[image]
        now = before.first[row] if before.now[row] == LEFT_OUT else before.now[row]
        old = "" if now == NO_LABEL else before.class_names[now]
        if before.checked.get(image) != new:
            lines.append(Correction(image, old, new, who))
    if lines:
        add_corrections(before.file, lines)
    return current_labels(folder)


def _checked(changes: Any) -> Mapping[str, str]:
    wanted = f"Corrections need the class of 1 to {MOST_CHANGES:,} images by id, as the page sends them."
    if not isinstance(changes, Mapping) or not 1 <= len(changes) <= MOST_CHANGES:
        raise RequestError(wanted)
    return {image: _name(new, "A class") for image, new in changes.items()}


def _name(text: Any, what: str) -> str:
    """Return a name without spaces around it; "" stays."""
    if not isinstance(text, str) or len(text) > MOST_LETTERS or not text.isprintable():
        shown = text[:50] if isinstance(text, str) else text
        raise RequestError(
            f"{what}'s name has at most {MOST_LETTERS} visible characters on one line, got {shown!r}. Change it."
        )
    if text.strip():
        check_names([text.strip()], "the correction")
    return text.strip()
