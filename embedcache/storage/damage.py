"""Telling of a damaged cache: whatever reading one of its files raises becomes one CacheError with what to do."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from frostbench.embedcache.storage.files import CacheError

MISREAD = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError),
    *(pa.ArrowException, RecursionError, OverflowError),
)
"""What reading a file raises that is gone, cut short, or holds other things than it should."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Read one file of a cache; keep other work out of the block, for its errors would be told as damage.

    Raises:
        CacheError: the file is gone, unreadable, or does not hold what a file of this name holds.
    """
    try:
        yield
    except CacheError:
        raise
    except FileNotFoundError as error:
        raise CacheError(f"a cache must hold {path.name}, however: {path} is missing. {remedy(path)}") from error
    except MISREAD as error:
        raise CacheError(
            f"{path.name} must be as it was written, however: {path} is damaged ({_sentence(error)}). {remedy(path)}"
        ) from error


def remedy(path: Path) -> str:
    """What the owner of a cache can do about a damaged file; images can be embedded again, imports cannot."""
    if path.parent.name == "splits":
        return "Delete it: the next run cuts a new split, and earlier results must not be compared with its results."
    in_shard = path.parent.name == "shards"
    imported = is_imported(path.parent.parent if in_shard else path.parent)
    if imported is None:
        return "Embed the images, or import the vectors, again into a new folder."
    if imported:
        return "Import the vectors again, into a new folder."
    if in_shard:
        return "Delete this shard and manifest.json, and run the embed command again: it makes this shard anew."
    if path.name == "manifest.json":
        return "Delete it and run the embed command again: it counts the shards anew."
    return "Embed the images again, into a new folder."


def is_imported(cache_dir: Path) -> bool | None:
    """Whether cache.json says that the vectors were imported; None where it is too damaged to say."""
    try:
        tree = json.loads((cache_dir / "cache.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    source = tree.get("source") if isinstance(tree, dict) else None
    return source.get("kind") == "external" if isinstance(source, dict) else None


def _sentence(error: Exception) -> str:
    """An error in one line; of pydantic's list the first entry."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        told = "should be a JSON object {…}" if first["type"] == "model_type" else first["msg"]
        return f"{'.'.join(map(str, first['loc'])) or 'the whole of it'}: {told}"
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError) else text
