"""The layout of the ultra-fine-grained benchmark, and of other sets that come with lists of images and classes.

Yu et al., "Benchmark Platform for Ultra-Fine-Grained Visual Categorization Beyond Human Performance", ICCV 2021:
SoyAgeing, SoyGene, SoyLocal, SoyGlobal and Cotton80, with an official division into training and test.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from frostbench.embedcache.cells import column_texts
from frostbench.embedcache.items import Item, Listing, escape_name, make_listing
from frostbench.embedcache.plain_text import read_text
from frostbench.embedcache.sources.text_tables import read_text_table

PARTS = {"train": "train", "train_val": "train", "test": "test"}
"""Names of lists, without their suffix, and the split of their rows."""
CSV_COLUMNS = {"class_id", "dir"}


def is_ufg(folder: Path) -> bool:
    """Whether a folder has the layout of the benchmark: lists in `anno`, in its own or its stages', or CSV lists."""
    return bool(_anno_folders(folder)) or _csv_lists(folder).keys() >= {"train", "test"}


def list_ufg(folder: Path, *, group_regex: str | None = None, time_regex: str | None = None) -> Listing:
    """List a set of the benchmark with its official split.

    Two layouts are known. As it is given out: `images/` beside `anno/train.txt` and `anno/test.txt`, whose lines are
    an image below `images/`, a space, and the class number; SoyAgeing has that in a folder for each stage (R1, R3, …),
    which then begins the ids. And as CSV: `train.csv` (or `train_val.csv`) and `test.csv` with the columns class_id
    and dir, the image's path from the folder or from `images/` in it. Classes are named by their numbers as written.

    Args:
        folder: of the set.
        group_regex: takes groups from the ids.
        time_regex: takes times from the ids.

    Raises:
        ValueError: a list is not as above or no text, an image is in both parts, or none of the first files exists.
    """
    annotated = _anno_folders(folder)
    if annotated:
        items = [item for one in annotated for item in _annotated(one, folder)]
    else:
        items = [item for split, file in _csv_lists(folder).items() for item in _from_csv(folder, file, split)]
    if items and not any(item.path is not None and item.path.exists() for item in items[:1000]):
        raise ValueError(
            f"the images of a list must exist, however: none of the first {min(1000, len(items))} does, for example "
            f"{items[0].path}. Unpack the images beside the lists in {folder}."
        )
    description = {"kind": "ufg", "root": escape_name(os.fspath(folder.absolute()))}
    return make_listing(items, {item.label for item in items}, [], description, group_regex, time_regex)


def _anno_folders(folder: Path) -> list[Path]:
    """The folder itself, or those in it, that hold `anno` with both lists, and `images`."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    wanted = ("anno/train.txt", "anno/test.txt")
    return [one for one in (folder, *inside) if all((one / name).is_file() for name in wanted)]


def _annotated(one: Path, folder: Path) -> Iterator[Item]:
    stage = one.relative_to(folder).as_posix()
    for split in ("train", "test"):
        for name, label in _lines(one / "anno" / f"{split}.txt"):
            path = one.absolute() / "images" / name
            one_id = escape_name(name if stage == "." else f"{stage}/{name}")
            yield Item(one_id, path, label, split=split)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """Image and class of each line; names may hold spaces."""
    for number, line in enumerate(read_text(file, "a list").splitlines(), 1):
        name, _, label = line.strip().rpartition(" ")
        if line.strip() and not (name and label.isdecimal()):
            raise ValueError(
                f"each line of a list must be an image and a class number, however: line {number} of {file} is "
                f"{line!r}. Correct it."
            )
        if name:
            yield name.strip(), label


def _csv_lists(folder: Path) -> dict[str, Path]:
    """The CSV lists in a folder by split: those with the columns class_id and dir."""
    found = dict[str, Path]()
    for name, split in PARTS.items():
        file = folder / f"{name}.csv"
        if file.is_file() and set(_header(file)) == CSV_COLUMNS:
            found.setdefault(split, file)
    return found


def _header(file: Path) -> list[str]:
    """The first line's cells; none where the file is no text, so that it is no list."""
    try:
        text = read_text(file, "a list")
    except (ValueError, OSError):
        return []
    return [cell.strip().strip('"') for cell in text.split("\n", 1)[0].split(",")]


def _from_csv(folder: Path, file: Path, split: str) -> Iterator[Item]:
    table = read_text_table(file, ("class_id", "dir"), "a list", "class_id and dir")
    root = folder.absolute()
    names, labels = (column_texts(table.rows[column], column, str(file)) for column in ("dir", "class_id"))
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if name is None or label is None:
            raise ValueError(
                f"each row of a list must have a class_id and a dir, however: row {row} of {file} (counted from 0 "
                "after the header) has not. Fill or remove it."
            )
        item = Item(escape_name(name), root / name, label, split=split)
        below = root / "images" / name
        yield (
            item if item.path is not None and (item.path.exists() or not below.exists()) else replace(item, path=below)
        )
