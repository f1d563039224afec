"""Small tables in memory whose vectors are given."""

from typing import Any

import numpy as np

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.table import FeatureTable

RECIPE = Recipe(provider="external", model="m")


def at(*angles: float) -> np.ndarray:
    """Unit vectors in the plane; the cosine of two is that of the difference of their angles."""
    return np.array([[np.cos(a), np.sin(a)] for a in angles])


def table_of(x: np.ndarray, labels: Any = None, content: Any = None, groups: Any = None) -> FeatureTable:
    n = len(x)
    labels = np.zeros(n, np.int64) if labels is None else np.array(labels, dtype=np.int64)
    content = np.array([f"{i:064x}" for i in range(n)] if content is None else content, dtype=str)
    return FeatureTable(
        ids=np.array([f"r{i:05d}" for i in range(n)], dtype=str),
        columns={"x": np.asarray(x, np.float16)},
        labels=labels,
        class_names=tuple(f"c{i}" for i in range(int(labels.max(initial=0)) + 1)),
        groups=content if groups is None else np.array(groups, dtype=str),
        has_groups=groups is not None,
        content=content,
        split=None,
        recipes={"x": RECIPE},
    )


def labelled(n: int, classes: int = 12, dim: int = 24, noise: float = 0.7, seed: int = 0) -> FeatureTable:
    """Rows around one centre for each class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return table_of(rng.normal(size=(classes, dim))[labels] + noise * rng.normal(size=(n, dim)), labels)
