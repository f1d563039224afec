"""Nesting limit for untrusted JSON from a browser or a store; YAML from a user has the same limit."""

from typing import Any

from frostbench.benchmarks.settings.reading import DEEPEST

__all__ = ["DEEPEST", "is_too_deep"]


def is_too_deep(value: Any, limit: int = DEEPEST) -> bool:
    """Whether lists and mappings are nested more than `limit` levels deep.

    Code that compares, checks or formats values is recursive and would fail with a RecursionError at some depth.

    >>> is_too_deep([{"a": [1]}])
    False
    """
    level = [value]
    for _ in range(limit + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
