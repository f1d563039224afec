"""Requests that the page sends to the server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.app.workspace import Workspace

MOST_RUNS = 100
"""Largest number of runs of a setting in a request."""


class RequestError(ValueError):
    """A request that the page would not send."""


def store_of(request: Any, workspace: Workspace) -> Path:
    """Return the run store that a request names.

    Raises:
        RequestError: the request is not an object, or the page does not show such a store.
    """
    if not isinstance(request, Mapping):
        raise RequestError("A request is an object, as the page sends it.")
    stores = {str(store): store for store in (workspace.store, *workspace.other_stores())}
    if request.get("store") not in stores:
        raise RequestError(f"The store must be one of {list(stores)}, got {request.get('store')!r}. Reload the page.")
    return stores[str(request["store"])]


def keys_of(keys: Any) -> list[str]:
    """Return the run keys that a request names.

    Raises:
        RequestError: they are not a list of 1 to `MOST_RUNS` texts.
    """
    if not isinstance(keys, list) or not 1 <= len(keys) <= MOST_RUNS or not all(isinstance(key, str) for key in keys):
        raise RequestError(f"A setting needs 1 to {MOST_RUNS} run keys, as the page sends them, got {keys!r}.")
    return keys
