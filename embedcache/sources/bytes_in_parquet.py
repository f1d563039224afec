"""Parquet files that contain encoded images, as on the Hugging Face hub."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from frostbench.embedcache.items import Item, Listing, escape_name, make_listing
from frostbench.embedcache.sources.image_columns import (
    as_labels,
    choose_column,
    class_names_in,
    features_of,
    image_columns,
    label_columns,
)
from frostbench.embedcache.sources.manifests import other_columns, read_extras

LARGEST_GROUP = 2**31
SPLIT_NAME = re.compile(r"(train|test|valid|validation|val|dev)-[0-9]+-of-[0-9]+")


@dataclass(frozen=True)
class _Columns:
    """Image and label columns, and the class names if the file states them."""

    image: str
    label: str
    names: list[str] | None

    def __str__(self) -> str:
        return f"columns {self.image!r} and {self.label!r} and classes {self.names}"


def holds_encoded_images(path: Path) -> bool:
    """Return whether a Parquet file has an image column and no column `path` (which would make it a manifest).

    An unreadable file gives False.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False
    return "path" not in schema.names and bool(image_columns(schema, features_of(schema)))


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder, without hidden ones such as those written by macOS."""
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def list_parquet(
    source: Path,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    group_regex: str | None = None,
    time_regex: str | None = None,
) -> Listing:
    """List the images in a Parquet file, or in all Parquet files of a folder.

    The image column is binary, or a struct with a field `bytes`. Labels are text, integers, or ClassLabel numbers,
    which are replaced by their names. Columns group, split and time are used as in a manifest; the name of a file such
    as `train-00000-of-00004.parquet` states the split of its rows. An id consists of file name and row.

    Args:
        source: a .parquet file or a folder of them.
        image_column: image column, if several qualify.
        label_column: label column, if several or none qualify.
        group_regex: regex that extracts groups from ids.
        time_regex: regex that extracts times from ids.

    Raises:
        ValueError: a file is damaged, lacks a column or has row groups of more than 2 GiB, or a row has no label.
    """
    files = parquet_files(source) if source.is_dir() else [source]
    found, items, notes = None, list[Item](), list[str]()
    for file in files:
        schema = _schema(file)
        features = features_of(schema)
        columns = _Columns(
            choose_column("image", image_column, schema.names, image_columns(schema, features), file),
            label := choose_column("label", label_column, schema.names, label_columns(schema.names, features), file),
            class_names_in(features, label),
        )
        if found is not None and columns != found:
            raise ValueError(
                f"All files of a source must have the same image and label columns and classes, but {file} has "
                f"{columns} and {files[0]} has {found}. Embed them separately."
            )
        found = columns
        rows, row_notes = _items(file, columns)
        items += rows
        notes += [note for note in row_notes if note not in notes]
    if found is None:
        raise ValueError(
            f"A source folder must contain at least one Parquet file, but {source} contains none. Check the path."
        )
    description = {"kind": "parquet", "source": escape_name(os.fspath(source.absolute()))}
    description |= {"image_column": found.image, "label_column": found.label}
    names = found.names or sorted({item.label for item in items})
    return make_listing(items, names, notes, description, group_regex, time_regex)


def _schema(file: Path) -> pa.Schema:
    """Read the schema of a file and check that its row groups can be read one by one."""
    try:
        metadata = pq.read_metadata(file)
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"Cannot read the Parquet file {file}: {error}. Write it again.") from error
    largest = max((metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)), default=0)
    if largest > LARGEST_GROUP:
        raise ValueError(
            f"Row groups of images are read as a whole and must have at most {LARGEST_GROUP} bytes, but one of {file} "
            f"has {largest}. Write the file again with row_group_size=1000."
        )
    return schema


def _items(file: Path, columns: _Columns) -> tuple[list[Item], list[str]]:
    """Return the items of a file, and notes about its other columns."""
    schema = pq.read_schema(file)
    there, row_notes = other_columns(schema.names, {columns.image, columns.label}, file)
    table = pq.read_table(file, columns=[columns.label, *there], partitioning=None)
    labels = as_labels(table[columns.label].to_pylist(), columns.names, str(file))
    extras, notes = read_extras(table, there, file)
    named = SPLIT_NAME.fullmatch(file.stem)
    stem, path = escape_name(file.stem), file.absolute()
    items = [
        Item(f"{stem}/{row:08d}", path, label, group, split or (named and named[1]), time, row, columns.image)
        for row, (label, (group, split, time)) in enumerate(zip(labels, extras, strict=True))
    ]
    return items, row_notes + notes
