"""Starting a job for one side, or finding that its runs exist already."""

from typing import Any

from frostbench.app import jobs
from frostbench.app.finding import collect, keys_of
from frostbench.app.workspace import Workspace


def submit_one(side: str, bench: dict[str, Any], workspace: Workspace) -> str:
    """Submit a job for a bench, without a worker if all of its runs already exist in any store; return its ID.

    Raises:
        JobError: the job cannot be submitted.
        OSError: the store cannot be written.
    """
    keys = keys_of(bench, workspace.plugins)
    is_complete, stores = collect(keys, workspace)
    if is_complete:
        return jobs.submit_found(workspace.store, side, bench, keys, stores=list(map(str, stores)))
    limits: dict[str, Any] = {"slots": workspace.slots, "device": workspace.device, "plugins": workspace.plugins}
    return jobs.submit(workspace.store, side, bench, keys=keys, **limits)
