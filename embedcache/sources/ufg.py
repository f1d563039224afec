"""The layouts of the ultra-fine-grained benchmark, which has lists of images and classes.

Yu et al., "Benchmark Platform for Ultra-Fine-Grained Visual Categorization Beyond Human Performance", ICCV 2021:
SoyAgeing, SoyGene, SoyLocal, SoyGlobal and Cotton80, with an official train/test split.
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
"""Split of the rows of a list, by the name of the list without suffix."""
CSV_COLUMNS = {"class_id", "dir"}


def is_ufg(folder: Path) -> bool:
    """Return whether a folder has a layout of the benchmark: CSV lists, or lists in its or a subfolder's `anno`."""
    return bool(_anno_folders(folder)) or _csv_lists(folder).keys() >= {"train", "test"}


def list_ufg(folder: Path, *, group_regex: str | None = None, time_regex: str | None = None) -> Listing:
    """List a data set of the benchmark with its official split.

    Two layouts are supported. The distributed one: `images/` beside `anno/train.txt` and `anno/test.txt`, where each
    line has an image below `images/`, a space, and the class number; SoyAgeing has one such folder per stage (R1, R3,
    …), whose name begins the ids. The other: `train.csv` (or `train_val.csv`) and `test.csv` with the columns class_id
    and dir, the image's path relative to the folder or to its `images/`. Class names are the numbers as written.

    Args:
        folder: folder of the data set.
        group_regex: regex that extracts groups from ids.
        time_regex: regex that extracts times from ids.

    Raises:
        ValueError: a list is invalid or not text, an image is listed twice, or none of the first 1000 files exists.
    """
    annotated = _anno_folders(folder)
    if annotated:
        items = [item for one in annotated for item in _annotated(one, folder)]
    else:
        items = [item for split, file in _csv_lists(folder).items() for item in _from_csv(folder, file, split)]
    if items and not any(item.path is not None and item.path.exists() for item in items[:1000]):
        raise ValueError(
            f"The listed images must exist, but none of the first {min(1000, len(items))} does, for example "
            f"{items[0].path}. Unpack the images beside the lists in {folder}."
        )
    description = {"kind": "ufg", "root": escape_name(os.fspath(folder.absolute()))}
    return make_listing(items, {item.label for item in items}, [], description, group_regex, time_regex)


def _anno_folders(folder: Path) -> list[Path]:
    """Return the folder, or its subfolders, that contain `images` and `anno` with both lists."""
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
    """Yield image and class of each line; names may contain spaces."""
    for number, line in enumerate(read_text(file, "a list").splitlines(), 1):
        name, _, label = line.strip().rpartition(" ")
        if line.strip() and not (name and label.isdecimal()):
            raise ValueError(
                f"Each line of a list must be an image and a class number, but line {number} of {file} is {line!r}. "
                "Correct it."
            )
        if name:
            yield name.strip(), label


def _csv_lists(folder: Path) -> dict[str, Path]:
    """Return the CSV lists in a folder by split: files with the columns class_id and dir."""
    found = dict[str, Path]()
    for name, split in PARTS.items():
        file = folder / f"{name}.csv"
        if file.is_file() and set(_header(file)) == CSV_COLUMNS:
            found.setdefault(split, file)
    return found


def _header(file: Path) -> list[str]:
    """Return the cells of the first line; empty if the file is not text and thus not a list."""
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
                f"Each row of a list must have a class_id and a dir, but row {row} of {file} (counted from 0 after the "
                "header) does not. Complete or remove this row."
            )
        item = Item(escape_name(name), root / name, label, split=split)
        below = root / "images" / name
        yield (
            item if item.path is not None and (item.path.exists() or not below.exists()) else replace(item, path=below)
        )
