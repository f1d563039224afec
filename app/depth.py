"""How deeply a value from elsewhere may be nested: JSON of a browser or of a store, as YAML of a person."""

from typing import Any

from frostbench.benchmarks.settings.reading import DEEPEST

__all__ = ["DEEPEST", "is_too_deep"]


def is_too_deep(value: Any, most: int = DEEPEST) -> bool:
    """Whether lists and mappings stand in each other more than so many times.

    What compares, checks or shows a value calls itself for each level, and ends with a RecursionError at some depth.

    >>> is_too_deep([{"a": [1]}])
    False
    """
    level = [value]
    for _ in range(most + 1):
        level = [one for each in level for one in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
