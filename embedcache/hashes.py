"""Hashes that identify files, rows and tables."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_rows(
    ids: Sequence[str],
    content: Sequence[str],
    labels: Sequence[str],
    groups: Sequence[str],
    class_names: Sequence[str],
) -> str:
    """Return the SHA-256 of the metadata of a table's rows, without vectors and recipes."""
    rows = [list(ids), list(content), list(labels), list(groups), list(class_names)]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def hash_table(recipe_hashes: Mapping[str, str], rows: str) -> str:
    """Return the SHA-256 of a table: its rows (`hash_rows`) and the recipe of each column, in any order."""
    return hashlib.sha256(json.dumps([sorted(recipe_hashes.items()), rows]).encode()).hexdigest()
