"""Where the caches of runs are: a run names its cache as it was named when it was trained."""

from collections.abc import Mapping
from pathlib import Path

from frostbench.app.workspace import Workspace


def page_name(cache: str, store: Path, workspace: Workspace) -> str:
    """Return the page's name of a cache that a run names; "" if it is none of the page's."""
    return name_in(cache, store, names_by_path(workspace))


def names_by_path(workspace: Workspace) -> dict[Path, str]:
    """Return the page's name of each cache by its path."""
    return {Path(name).resolve(): name for name in workspace.cache_names()}


def name_in(cache: str, store: Path, names: Mapping[Path, str]) -> str:
    """Return the name of a cache among names by path; "" if it has none.

    Relative paths are those of the folder where the run was started, which is often that of the page or of the store.
    """
    paths = (Path(cache).resolve(), (store.parent / cache).resolve())
    return next((names[path] for path in paths if path in names), "")
