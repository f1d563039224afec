"""Runs that are there already: in the page's store, or in another below its folder, such as one of the command line."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.keys import known_keys
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.runs.taking_over import take_over
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.table import FeatureTable, read_table


def keys_of(bench: Mapping[str, Any]) -> dict[int, str]:
    """The run keys of a bench of one row by seed; none where they cannot be told yet.

    A split that was never made belongs to no run, and making one may take minutes. What is wrong with a cache or an
    option is found, and told, by the worker.
    """
    try:
        spec = parse(BenchSpec, dict(bench))
        (cache,) = spec.caches
        return known_keys(spec, _table(Path(cache), (Path(cache) / "manifest.json").stat().st_mtime_ns))
    except (ValueError, OSError):
        return {}


@lru_cache(maxsize=2)
def _table(cache: Path, _written: int) -> FeatureTable:
    """The rows of a cache without its vectors; those of A and of B are kept."""
    return read_table(cache, stored=True)


def collect(keys: Mapping[int, str], workspace: Workspace) -> tuple[bool, tuple[Path, ...]]:
    """Bring those of some runs that another store holds into the page's own.

    Returns:
        Whether all of them are there now, and the stores that they came from.

    Raises:
        OSError: they cannot be written.
    """
    sources = []
    for key in keys.values():
        if not is_finished(workspace.store, key):
            source = next((store for store in workspace.other_stores() if is_finished(store, key)), None)
            if source is not None and take_over(key, source, workspace.store):
                sources.append(source)
    everything = bool(keys) and all(is_finished(workspace.store, key) for key in keys.values())
    return everything, tuple(dict.fromkeys(sources))
