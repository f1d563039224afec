"""What the tab Compare asks for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.app.reveals import count_reveals, note_reveal
from frostbench.app.workbench.background import Background
from frostbench.app.workbench.compare.decide import compute, decide, keep_for_export
from frostbench.app.workbench.compare.tree import as_tree
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workbench.tables import table_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.comparison.ab import pair
from frostbench.benchmarks.runs.store import StoreError, read_outcomes
from frostbench.embedcache.index import nearest_among

MOST_RUNS = 100
MOST_NEAR = 24
WANTED = f"A comparison needs a store, and 1 to {MOST_RUNS} run keys for each of a and b, as the page sends them."


def answers(workspace: Workspace) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name."""
    background = Background()
    return {
        "decide": lambda request: decide(request, workspace),
        "decide_logits": lambda request: compute(request, workspace, background),
        "keep_decision": lambda request: keep_for_export(request, workspace),
        "compare": lambda request: comparison(request, workspace),
        "reasons": lambda request: reasons(request, workspace),
    }


def comparison(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Compare the runs of two settings on validation images, or, if `reveal` is true, on test images.

    Each comparison on test images is noted in the store.

    Raises:
        RequestError: the request has another form, or names a store that the page does not show.
        StoreError: the runs cannot be compared.
    """
    if not isinstance(request, Mapping):
        raise RequestError(WANTED)
    store, a, b = store_of(request, workspace), _keys(request.get("a")), _keys(request.get("b"))
    is_test = request.get("reveal") is True
    found = pair(store, a, b, "test" if is_test else "select")
    reveals = note_reveal(store, found) if is_test else count_reveals(store, found)
    return as_tree(store, found) | {"reveals": reveals}


def reasons(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return the nearest images that a run did not hold out: ids, labels and cosines, the nearest first.

    Raises:
        RequestError: the request has another form, or names a store or cache that the page does not show.
        ValueError: the run or the cache cannot be read, or the cache has no such image.
    """
    if not isinstance(request, Mapping):
        raise RequestError(WANTED)
    store, (key,) = store_of(request, workspace), _keys([request.get("key")])
    image, k = request.get("id"), request.get("k")
    if not isinstance(image, str) or not isinstance(k, int) or not 1 <= k <= MOST_NEAR:
        raise RequestError(f"Nearest images need an id and a number of 1 to {MOST_NEAR}, as the page sends them.")
    table = table_of(workspace.cache(request.get("cache")))
    seen = ~np.isin(table.ids, list(_held_out(store, key)))
    rows, cosine = nearest_among(table, image, seen, k)
    labels = [table.class_names[label] for label in table.labels[rows]]
    return {"ids": table.ids[rows].tolist(), "labels": labels, "cosine": cosine.round(3).tolist()}


def _held_out(store: Path, key: str) -> set[str]:
    """Return the ids of a run's validation and test images; a split need not have both."""
    found: set[str] = set()
    for role in ("select", "test"):
        try:
            found |= set(read_outcomes(store, key, role)["id"])
        except StoreError:
            if role == "test" and found:
                continue
            raise
    return found


def _keys(keys: Any) -> list[str]:
    if not isinstance(keys, list) or not 1 <= len(keys) <= MOST_RUNS or not all(isinstance(key, str) for key in keys):
        raise RequestError(WANTED)
    return keys
