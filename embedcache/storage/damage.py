"""Errors for damaged caches: any exception raised while reading a file becomes a CacheError that states the repair."""

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
"""Exceptions raised by reading a file that is missing, truncated or has unexpected content."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of reading one cache file into CacheError; keep other work out of the block.

    Raises:
        CacheError: the file is missing, unreadable, or has unexpected content.
    """
    try:
        yield
    except CacheError:
        raise
    except FileNotFoundError as error:
        raise CacheError(f"A cache must contain {path.name}, but {path} is missing. {remedy(path)}") from error
    except MISREAD as error:
        raise CacheError(
            f"{path.name} must be as it was written, but {path} is damaged ({_sentence(error)}). {remedy(path)}"
        ) from error


def remedy(path: Path) -> str:
    """Return advice on repairing a damaged file: images can be embedded again, imported vectors cannot."""
    if path.parent.name == "splits":
        return "Delete it. The next run makes a new split, whose results must not be compared with earlier ones."
    in_shard = path.parent.name == "shards"
    imported = is_imported(path.parent.parent if in_shard else path.parent)
    if imported is None:
        return "Embed the images or import the vectors again, into a new folder."
    if imported:
        return "Import the vectors again, into a new folder."
    if in_shard:
        return "Delete this shard and manifest.json, then run the embed command again to recreate the shard."
    if path.name == "manifest.json":
        return "Delete it and run the embed command again to recreate it."
    return "Embed the images again, into a new folder."


def is_imported(cache_dir: Path) -> bool | None:
    """Return whether the vectors were imported, according to cache.json; None if it is unreadable."""
    try:
        tree = json.loads((cache_dir / "cache.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    source = tree.get("source") if isinstance(tree, dict) else None
    return source.get("kind") == "external" if isinstance(source, dict) else None


def _sentence(error: Exception) -> str:
    """Format an error as one line; for pydantic errors, the first entry."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        message = "should be a JSON object {…}" if first["type"] == "model_type" else first["msg"]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {message}"
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError) else text
