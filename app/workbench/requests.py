"""Requests that the page sends to the server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.app.workspace import Workspace


class RequestError(ValueError):
    """A request that the page would not send."""


def store_of(request: Mapping[str, Any], workspace: Workspace) -> Path:
    """Return the run store that a request names.

    Raises:
        RequestError: the page does not show such a store.
    """
    stores = {str(store): store for store in (workspace.store, *workspace.other_stores())}
    if request.get("store") not in stores:
        raise RequestError(f"The store must be one of {list(stores)}, got {request.get('store')!r}. Reload the page.")
    return stores[str(request["store"])]
