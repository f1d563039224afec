"""What the tab Images asks for, beside the data set itself."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record

MOST_RUNS = 100


def answers(workspace: Workspace) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name."""
    return {"predictions": lambda request: predictions(request, workspace)}


def predictions(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return what runs of one setting say about their validation images.

    Args:
        request: `store` and `keys`, the run keys of the setting's seeds.
        workspace: workspace of the page.

    Returns:
        `ids`, and for each of them `said`, the class that most runs say, as an index into `class_names` (of equally
        frequent ones the first), `right`, the share of runs that say its label, and `confidence`, their mean
        probability of what they say.

    Raises:
        RequestError: the request has another form, or names a store that the page does not show.
        StoreError: a run cannot be read, or runs were evaluated on different images.
    """
    keys = request.get("keys") if isinstance(request, Mapping) else None
    if not isinstance(keys, list) or not 1 <= len(keys) <= MOST_RUNS or not all(isinstance(key, str) for key in keys):
        raise RequestError(f"Predictions need a store and 1 to {MOST_RUNS} run keys, as the page sends them.")
    store = store_of(request, workspace)
    runs = [read_outcomes(store, key, "select") for key in keys]
    names = {read_record(store, key).data.class_names for key in keys}
    if len(names) > 1 or any(run["id"].tolist() != runs[0]["id"].tolist() for run in runs):
        raise StoreError("Predictions need runs on the same images and classes. Choose runs that differ in the seed.")
    return _tree(runs, list(names.pop()))


def _tree(runs: list[pd.DataFrame], names: list[str]) -> dict[str, Any]:
    said = np.stack([run["predicted"].to_numpy() for run in runs])
    votes = np.zeros((said.shape[1], len(names)), dtype=np.int64)
    for one in said:
        votes[np.arange(said.shape[1]), one] += 1
    right = (said == runs[0]["label"].to_numpy()).mean(axis=0)
    confidence = np.mean([run["confidence"].to_numpy() for run in runs], axis=0)
    return {
        "ids": runs[0]["id"].tolist(),
        "class_names": names,
        "said": votes.argmax(axis=1).tolist(),
        "right": right.round(4).tolist(),
        "confidence": confidence.round(4).tolist(),
    }
