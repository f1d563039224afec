"""Finding the image and label columns of a table."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from frostbench.embedcache.cells import as_texts
from frostbench.embedcache.counting import things

LABEL_NAMES = ("label", "labels")


def choose_column(what: str, requested: str | None, there: Sequence[str], fitting: Sequence[str], source: Path) -> str:
    """Return the requested column, or the only one that qualifies.

    Args:
        what: "image" or "label".
        requested: name of the column, if the user gave one.
        there: all columns.
        fitting: columns that qualify.
        source: file or folder, for the message.

    Raises:
        ValueError: none or several columns qualify, or the requested one does not.
    """
    if requested is not None and requested not in there:
        raise ValueError(
            f"The {what} column must be one of {list(there)}, got {requested!r} for {source}. Choose one of these."
        )
    if requested is not None and what == "image" and requested not in fitting:
        raise ValueError(
            f"An image column must contain encoded images as bytes, but {requested!r} of {source} does not. Choose one "
            f"of {list(fitting)}."
        )
    if requested is not None:
        return requested
    if len(fitting) != 1:
        found = f"{list(fitting)} all do" if fitting else f"none of {list(there)} does"
        raise ValueError(
            f"Exactly one column of {source} must qualify as the {what} column, but {found}. Name one with "
            f"--{what}-column ({what}_column in Python)."
        )
    return fitting[0]


def holds_images(kind: pa.DataType) -> bool:
    """Return whether a type can hold encoded images: binary, or a struct with a field `bytes` (Hugging Face)."""
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and holds_images(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def features_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the features that Hugging Face datasets stored in a schema; empty if there are none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):  # written by another program
        return {}
    return features if isinstance(features, dict) else {}


def class_names_in(features: Mapping[str, Any], column: str) -> list[str] | None:
    """Return the class names of a ClassLabel column; None if it is not one."""
    feature = features.get(column)
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    return [str(name) for name in feature.get("names", [])] or None


def label_columns(there: Sequence[str], features: Mapping[str, Any]) -> list[str]:
    """Return the ClassLabel columns, or else the columns called label or labels."""
    typed = [name for name in there if class_names_in(features, name) is not None]
    return typed or [name for name in there if name in LABEL_NAMES]


def image_columns(schema: pa.Schema, features: Mapping[str, Any]) -> list[str]:
    """Return the Image columns, or else the columns that can hold encoded images."""
    fitting = [field.name for field in schema if holds_images(field.type)]
    typed = [name for name in fitting if isinstance(features.get(name), dict) and features[name]["_type"] == "Image"]
    return typed or fitting


def as_labels(values: Sequence[Any], names: Sequence[str] | None, where: str) -> list[str]:
    """Return labels as text: the names of ClassLabel numbers, or text and integers as they are.

    Raises:
        ValueError: a row has no label, an invalid class number, or neither text nor an integer.
    """
    found = as_texts(values, "label", where) if names is None else [_class(value, names) for value in values]
    lacking = [row for row, label in enumerate(found) if not label]
    if lacking:
        rows = things(len(lacking), f"row of {where} has", f"rows of {where} have")
        kind = "text or integer" if names is None else f"one of {len(names)} classes"
        raise ValueError(
            f"Every image must have a label ({kind}), but {rows} none; the first is row {lacking[0]} with "
            f"{values[lacking[0]]!r}. Remove such rows; datasets often hide the labels of test rows."
        )
    return [label for label in found if label]


def _class(value: Any, names: Sequence[str]) -> str | None:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
