"""Image datasets saved to disk by Hugging Face datasets."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frostbench.embedcache.counting import things
from frostbench.embedcache.items import Item, Listing, escape_name, make_listing
from frostbench.embedcache.sources.image_columns import as_labels, choose_column, holds_images
from frostbench.embedcache.sources.manifests import other_columns, read_extras
from frostbench.embedcache.sources.members import open_stream


def is_saved_dataset(folder: Path) -> bool:
    """Return whether a folder was written by `save_to_disk`."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def list_dataset(
    folder: Path,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    group_regex: str | None = None,
    time_regex: str | None = None,
) -> Listing:
    """List a dataset saved to disk; the parts of a DatasetDict are splits. Needs the package `datasets`.

    Columns group, split and time are used as in a manifest. Images are not copied: an item refers to a row of an Arrow
    file, or to the file named by this row. An id consists of split, Arrow file and row.

    Args:
        folder: folder written by `save_to_disk`.
        image_column: image column, if there are several.
        label_column: label column, if there is not exactly one ClassLabel column.
        group_regex: regex that extracts groups from ids.
        time_regex: regex that extracts times from ids.

    Raises:
        ModuleNotFoundError: the package `datasets` is not installed.
        ValueError: there is no such dataset, it lacks a column, rows were selected without `flatten_indices`, or a row
            has no label.
    """
    parts = _load(folder)
    items, names, notes = list[Item](), list[str](), list[str]()
    for split, dataset in parts.items():
        image, label = _columns(dataset, image_column, label_column, folder)
        classes = getattr(dataset.features[label], "names", None)
        found, row_notes = _items(split, dataset, image, label, classes)
        notes += [note for note in row_notes if note not in notes]
        items += found
        names += classes or [item.label for item in found]
    description: dict[str, Any] = {"kind": "hf_dataset", "root": escape_name(os.fspath(folder.absolute()))}
    description |= {"image_column": image_column, "label_column": label_column}
    return make_listing(items, dict.fromkeys(names), notes, description, group_regex, time_regex)


def _load(folder: Path) -> Mapping[str, Any]:
    """Load the datasets by split; a dataset without splits has the key ""."""
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Reading the Hugging Face dataset {folder} needs the package datasets, which is not installed. "
            "Run: pip install 'frostbench[datasets]'"
        ) from error
    try:
        loaded = load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise ValueError(f"Cannot read the saved dataset {folder}: {error}. Save it again.") from error
    return dict(loaded) if isinstance(loaded, DatasetDict) else {"": loaded}


def _columns(dataset: Any, image: str | None, label: str | None, folder: Path) -> tuple[str, str]:
    from datasets import ClassLabel, Image

    there, schema = dataset.column_names, dataset.features.arrow_schema
    fitting = [name for name in there if holds_images(schema.field(name).type)]
    images = [name for name in fitting if isinstance(dataset.features[name], Image)]
    labels = [name for name in there if isinstance(dataset.features[name], ClassLabel)]
    return (
        choose_column("image", image, there, fitting if image else images, folder),
        choose_column("label", label, there, labels, folder),
    )


def _items(split: str, dataset: Any, image: str, label: str, names: list[str] | None) -> tuple[list[Item], list[str]]:
    """Return the items of a split, and notes about its other columns."""
    files = [Path(file["filename"]) for file in dataset.cache_files]
    tables = {file: open_stream(file) for file in files}
    if sum(table.num_rows for table in tables.values()) != len(dataset):
        raise ValueError(
            f"The Arrow files of a saved dataset must hold exactly its rows, but {[str(file) for file in files]} do "
            f"not hold {things(len(dataset), 'row', 'rows')}. Call flatten_indices() and save it again."
        )
    items, notes = list[Item](), list[str]()
    for file, table in tables.items():
        labels = as_labels(table[label].to_pylist(), names, str(file))
        stem = "/".join(filter(None, (escape_name(split), escape_name(file.stem))))
        there, ignored = other_columns(table.column_names, {image, label}, file)
        extras, row_notes = read_extras(table, there, file)
        notes += ignored + row_notes
        rows = zip(labels, _paths(table[image]), extras, strict=True)
        for row, (name, path, (group, written, time)) in enumerate(rows):
            item = Item(f"{stem}/{row:08d}", path, name, group, written or split or None, time)
            items.append(item if path is not None else replace(item, path=file, member=row, column=image))
    return items, notes


def _paths(images: pa.ChunkedArray) -> list[Path | None]:
    """Return the file of each image; None if its bytes are in the dataset."""
    if not pa.types.is_struct(images.type) or images.type.get_field_index("path") < 0:
        return [None] * len(images)
    inside = pc.is_valid(pc.struct_field(images, "bytes")).to_pylist()
    paths = pc.struct_field(images, "path").to_pylist()
    return [
        None if has_bytes or path is None else Path(path).absolute()
        for has_bytes, path in zip(inside, paths, strict=True)
    ]
