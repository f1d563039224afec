"""Which column of a table holds the images, and which the labels."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from frostbench.embedcache.cells import as_texts

LABEL_NAMES = ("label", "labels")


def choose_column(what: str, asked: str | None, there: Sequence[str], fitting: Sequence[str], source: Path) -> str:
    """The one column that was asked for, or the only one that can be meant.

    Args:
        what: the column holds, "image" or "label".
        asked: its name, where the user gives one.
        there: all columns.
        fitting: those that can be meant.
        source: where they are, for the message.

    Raises:
        ValueError: none or several fit, or the one that was asked for does not.
    """
    if asked is not None and asked not in there:
        raise ValueError(
            f"the {what} column must be one of {list(there)}, however: {asked!r} came for {source}. Choose of these."
        )
    if asked is not None and what == "image" and asked not in fitting:
        raise ValueError(
            f"an image column holds encoded images as bytes, however: {asked!r} of {source} does not; {list(fitting)} "
            "do. Choose of these."
        )
    if asked is not None:
        return asked
    if len(fitting) != 1:
        found = f"{list(fitting)} are" if fitting else f"none of {list(there)} is"
        raise ValueError(
            f"one column must hold the {what}s, however: {found} such in {source}. Name it with --{what}-column "
            f"({what}_column in Python)."
        )
    return fitting[0]


def holds_images(kind: pa.DataType) -> bool:
    """Whether a type can hold encoded images: binary, or a struct with a field `bytes` as Hugging Face datasets has."""
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and holds_images(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def features_of(schema: pa.Schema) -> dict[str, Any]:
    """What Hugging Face datasets wrote into a schema about its columns; empty where they wrote nothing."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):  # another program wrote the file
        return {}
    return features if isinstance(features, dict) else {}


def class_names_in(features: Mapping[str, Any], column: str) -> list[str] | None:
    """The names of the classes of a ClassLabel column; None where it is none."""
    feature = features.get(column)
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    return [str(name) for name in feature.get("names", [])] or None


def label_columns(there: Sequence[str], features: Mapping[str, Any]) -> list[str]:
    """The columns that are ClassLabels, or else those that are called so."""
    typed = [name for name in there if class_names_in(features, name) is not None]
    return typed or [name for name in there if name in LABEL_NAMES]


def image_columns(schema: pa.Schema, features: Mapping[str, Any]) -> list[str]:
    """The columns that are Images, or else those that can hold encoded images."""
    fitting = [field.name for field in schema if holds_images(field.type)]
    typed = [name for name in fitting if isinstance(features.get(name), dict) and features[name]["_type"] == "Image"]
    return typed or fitting


def as_labels(values: Sequence[Any], names: Sequence[str] | None, where: str) -> list[str]:
    """Labels by name: of ClassLabel numbers, or of texts and integers as they are.

    Raises:
        ValueError: a row has none, a number that is no class, or neither text nor a whole number.
    """
    found = as_texts(values, "label", where) if names is None else [_class(value, names) for value in values]
    lacking = [row for row, label in enumerate(found) if not label]
    if lacking:
        kind = "text or integer" if names is None else f"of the {len(names)} classes"
        raise ValueError(
            f"every image must have a label ({kind}), however: {len(lacking)} rows of {where} have none, the first is "
            f"row {lacking[0]}, with {values[lacking[0]]!r}. Leave them out; datasets often hide labels of test rows."
        )
    return [label for label in found if label]


def _class(value: Any, names: Sequence[str]) -> str | None:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
