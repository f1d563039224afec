"""Finding runs that already exist, in the page's store or in another store below its folder."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from frostbench.app.jobs.plugins import disallowed_in
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.keys import known_keys, known_keys_by_row
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.runs.taking_over import take_over
from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.table import FeatureTable, read_table


def keys_of(bench: Mapping[str, Any], plugins: Sequence[Path] = ()) -> dict[int, str]:
    """Return the run keys of a one-row bench by seed, or an empty dict if they are not known.

    If the split was never made, no run can exist, and making it may take minutes. Errors in the cache or the options
    are left to the worker, which reports them. The keys of a run with a plugin depend on its code, which is executed;
    so they are not known if the bench names a plugin that is not among the given ones.
    """
    try:
        spec = _spec_of(bench, plugins)
        (cache,) = spec.caches
        return known_keys(spec, _table(Path(cache), (Path(cache) / "manifest.json").stat().st_mtime_ns))
    except (ValueError, OSError):
        return {}


def keys_by_row(bench: Mapping[str, Any], plugins: Sequence[Path] = ()) -> dict[str, tuple[str, ...]]:
    """Return the run keys of a bench on one cache, one per seed, by row; an empty dict as in `keys_of`."""
    try:
        spec = _spec_of(bench, plugins)
        (cache,) = spec.caches
        return known_keys_by_row(spec, _table(Path(cache), (Path(cache) / "manifest.json").stat().st_mtime_ns))
    except (ValueError, OSError):
        return {}


def _spec_of(bench: Mapping[str, Any], plugins: Sequence[Path]) -> BenchSpec:
    if named := disallowed_in(bench, Path.cwd(), plugins):
        raise SettingsError(f"Only the plugins {list(map(str, plugins))} may be executed, got {named}.")
    return parse(BenchSpec, dict(bench))


def numbered(keys: Mapping[str, Sequence[str]]) -> dict[int, str]:
    """Return the run keys of a bench's rows by number, row after row.

    >>> numbered({"a": ("k0", "k1"), "b": ("k2",)})
    {0: 'k0', 1: 'k1', 2: 'k2'}
    """
    return dict(enumerate(key for row in keys.values() for key in row))


@lru_cache(maxsize=2)
def _table(cache: Path, _written: int) -> FeatureTable:
    """Return the rows of a cache without its vectors; two results are kept, for A and B."""
    return read_table(cache, stored=True)


def collect(keys: Mapping[int, str], workspace: Workspace) -> tuple[bool, tuple[Path, ...]]:
    """Copy runs that other stores hold into the page's own store.

    Returns:
        Whether the page's store now holds all runs, and the stores that some of them came from.

    Raises:
        OSError: a run cannot be written.
    """
    sources = []
    for key in keys.values():
        if not is_finished(workspace.store, key):
            source = next((store for store in workspace.other_stores() if is_finished(store, key)), None)
            if source is not None and take_over(key, source, workspace.store):
                sources.append(source)
    is_complete = bool(keys) and all(is_finished(workspace.store, key) for key in keys.values())
    return is_complete, tuple(dict.fromkeys(sources))
