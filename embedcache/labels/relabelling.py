"""Applies corrections of labels, merged classes and left-out classes to a table and its split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.counting import things
from frostbench.embedcache.labels.corrections import Correction, LabelError, rulings
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.making import Split, hash_roles
from frostbench.embedcache.table import FeatureTable, rows_where

SHOWN = 3
"""Number of images that a message lists."""
NO_LABEL = "no label"
"""What a message calls the label of an image that has none."""


@dataclass(frozen=True)
class Relabelling:
    """What to change about the labels of a table; the default changes nothing.

    Attributes:
        corrections: lines of a file of corrections; the last one of an image counts.
        merge: classes by the class that they become part of.
        leave_out: classes whose images are left out, after corrections and merging.
    """

    corrections: tuple[Correction, ...] = ()
    merge: Mapping[str, Sequence[str]] = field(default_factory=dict)
    leave_out: tuple[str, ...] = ()

    @property
    def is_neutral(self) -> bool:
        """Whether nothing is changed."""
        return not (self.corrections or self.merge or self.leave_out)


@dataclass(frozen=True)
class Changes:
    """What a relabelling did.

    Attributes:
        corrected: number of images that a correction gave another label.
        merged: number of images whose class was merged into another.
        left_out: number of images that a correction or a class leaves out.
        done: number of corrected images whose label in the cache is the corrected one already.
        elsewhere: number of corrected images that the cache does not have.
    """

    corrected: int
    merged: int
    left_out: int
    done: int
    elsewhere: int

    def __str__(self) -> str:
        parts = {
            "corrected": self.corrected,
            "merged into another class": self.merged,
            "left out": self.left_out,
            "correct in the cache already": self.done,
            "not in this cache": self.elsewhere,
        }
        return f"Labels: {', '.join(f'{count:,} {name}' for name, count in parts.items() if count) or 'none changed'}."


def relabelled(table: FeatureTable, split: Split, changes: Relabelling) -> tuple[FeatureTable, Split, Changes]:
    """Return the table and split with changed labels, without the images that are left out, and what was changed.

    Each image keeps its role: the split is that of the labels in the cache, so that a head before and after a
    correction can be compared on the same images. Classes that no image has any more are removed; new ones are added
    behind the others, in the order of their names.

    Args:
        table: table of the cache, in memory or on disk.
        split: its split.
        changes: what to change.

    Raises:
        LabelError: a correction is of another label than the image has, a class to merge or to leave out does not
            exist, or fewer than two classes remain.
    """
    now, kept, counts = corrected(table, changes.corrections)
    names = table.label_names
    _check_classes(changes, {*table.class_names, *now.tolist()})
    before = now.copy()
    for name, parts in changes.merge.items():
        now[np.isin(before, list(parts))] = name
    kept &= ~np.isin(now, list(changes.leave_out))
    counts = replace(counts, merged=int((now != before)[kept].sum()), left_out=int((~kept).sum()))
    gone = {*names.tolist()} - {*now[kept].tolist()}
    added = sorted({*now[kept].tolist()} - {*table.class_names})
    classes = (*(name for name in table.class_names if name not in gone), *added)
    if len(classes) < 2:
        raise LabelError(
            f"A classifier needs two classes, but these changes leave {things(len(classes), 'class', 'classes')}. "
            "Leave out fewer."
        )
    place = {name: number for number, name in enumerate(classes)}
    labels = np.array([place[name] for name in now[kept]], dtype=np.int64)
    changed = _rows(replace(table, class_names=classes), kept, labels)
    return changed, _roles(split, kept, changed, str(counts)), counts


def corrected(
    table: FeatureTable, corrections: Sequence[Correction]
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.bool_], Changes]:
    """Return the corrected label of each image, str [N], whether it is kept, bool [N], and what was changed.

    Raises:
        LabelError: a correction is of another label than the image has.
    """
    names = table.label_names
    found = rulings(corrections)
    now, kept = names.copy(), np.ones(len(names), dtype=bool)
    place = {image: row for row, image in enumerate(table.ids.tolist())}
    outdated: list[str] = []
    changed = done = 0
    for image, ruling in found.items():
        row = place.get(image)
        if row is None:
            continue
        label = names[row]
        if ruling.new == label:
            done += 1
        elif label not in ruling.olds:
            olds = " or ".join(old or NO_LABEL for old in sorted(ruling.olds))
            outdated.append(f"{image} ({olds}, now {label or NO_LABEL})")
        elif ruling.new:
            now[row], changed = ruling.new, changed + 1
        else:
            kept[row] = False
    if outdated:
        raise LabelError(
            f"A label correction must state the label that the image has in the cache, but "
            f"{things(len(outdated), 'image has', 'images have')} another one by now: {', '.join(outdated[:SHOWN])}"
            f"{', …' if len(outdated) > SHOWN else ''}. Correct or delete their lines."
        )
    return now, kept, Changes(changed, 0, 0, done, len(found.keys() - place.keys()))


def _check_classes(changes: Relabelling, known: set[str]) -> None:
    parts = [part for merged in changes.merge.values() for part in merged]
    for word, listed in (("merge", parts), ("leave out", [*changes.leave_out])):
        unknown = [name for name in listed if name not in known | {*changes.merge}]
        if unknown:
            raise LabelError(
                f"Classes to {word} must be among those of the cache, but {', '.join(unknown[:SHOWN])} "
                f"{'is' if len(unknown) == 1 else 'are'} not. Check the names."
            )
    if twice := sorted({part for part in parts if parts.count(part) > 1}):
        raise LabelError(f"A class can be merged into one other, but {twice[0]} is listed twice. Remove one.")


def _rows(table: FeatureTable, kept: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64]) -> FeatureTable:
    """Return the kept rows of a table with these labels."""
    labels.flags.writeable = False
    return replace(table if kept.all() else rows_where(table, kept), labels=labels)


def _roles(split: Split, kept: npt.NDArray[np.bool_], changed: FeatureTable, note: str) -> Split:
    """Return the roles of the kept rows, with a report on the rows and classes that it has now."""
    roles, folds = split.roles[kept], None if split.folds is None else split.folds[:, kept]
    units = merge_groups(changed.groups, changed.content)
    there = set(changed.labels.tolist())
    missing = {role: sorted(there - set(changed.labels[roles == role].tolist())) for role in split.report.missing}
    report = split.report.model_copy(
        update={
            "counts": {role: int((roles == role).sum()) for role in split.report.counts},
            "groups": {role: len(np.unique(units[roles == role])) for role in split.report.groups},
            "missing": {role: tuple(changed.class_names[i] for i in classes) for role, classes in missing.items()},
            "warnings": (*split.report.warnings, note),
        }
    )
    return Split(roles, split.hash if kept.all() else hash_roles(changed.ids, roles, folds), report, folds)
