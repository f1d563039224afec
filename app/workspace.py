"""What the page may touch: caches, runs and files below one folder, and one run store of its own."""

import os
import stat
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.embedcache.checking.verify import cache_info
from frostbench.embedcache.views.sets import view_roles

DEPTH = 4
"""Levels of folders below the root that are searched for caches and run stores."""
MIB = 2**20
MOST_BYTES = 100 * MIB
"""The largest file that a form may name: it is hashed once while a person waits."""
SECONDS = 5.0
"""How long what was found is believed: folders of many images take their time, and every change of the form asks."""


@dataclass(frozen=True)
class CacheFacts:
    """What the page says about a cache.

    Attributes:
        images: rows.
        classes: names and rows, in class order.
        columns: vector column to backbone and dimension, in words.
    """

    images: int
    classes: dict[str, int]
    columns: dict[str, str]


@dataclass(frozen=True)
class Workspace:
    """Where the page finds caches and runs and keeps its own.

    A browser can make the page read what lies below the root, links followed, and what was named at the start: caches,
    the store and plugins. It can make it read nothing else, and fetch nothing.

    Attributes:
        root: folder below which caches are looked for.
        named: caches that were named when the app was started; they come first.
        store: run store, in which jobs are kept as well.
        device: where heads are trained, such as cpu or cuda.
        slots: jobs that may run at the same time.
        plugins: files of losses and heads that a job may run; a browser can name no other.
    """

    root: Path
    named: tuple[Path, ...]
    store: Path
    device: str = "cpu"
    slots: int = 1
    plugins: tuple[Path, ...] = ()

    def cache_names(self) -> list[str]:
        """Finished caches, as one writes their folders on the command line."""
        named = [str(path) for path in self.named]
        found = _below(self.root, int(time.monotonic() / SECONDS)).caches
        return named + [name for name in map(str, found) if name not in named]

    def other_stores(self) -> list[Path]:
        """Run stores below the root other than the page's own."""
        found = _below(self.root, int(time.monotonic() / SECONDS)).stores
        return [path for path in found if path.resolve() != self.store.resolve()]

    def told_runs(self) -> str:
        """A sentence on the runs that are there already; empty where there are none."""
        stores = {store: count_folders(store) for store in (self.store, *self.other_stores())}
        there = {store: runs for store, runs in stores.items() if runs}
        if not there:
            return ""
        told = ", ".join(f"{runs:,} in {store}" for store, runs in there.items())
        return f"Runs that are there: {told}. Settings that were trained there are found, not trained again."

    def cache(self, name: str | None) -> Path:
        """The folder of a cache that the page may use.

        Raises:
            SettingsError: it is none of `cache_names`.
        """
        known = self.cache_names()
        if name not in known:
            raise SettingsError(f"a cache is one of {known}, however: {name!r} came. Choose one of these.")
        return Path(str(name))

    def facts(self, name: str) -> CacheFacts:
        """What is in a cache.

        Raises:
            ValueError: it cannot be read.
        """
        path = self.cache(name)
        return _facts(path, (path / "manifest.json").stat().st_mtime_ns)

    def view_sets(self, name: str) -> dict[str, str]:
        """The view sets of a cache that can be read by name, and whether each is for train or eval.

        Raises:
            SettingsError: the cache is none of `cache_names`.
        """
        return view_roles(self.cache(name))

    def file(self, name: str) -> Path:
        """A file that a browser named, where the page may read it: every path that comes from a page goes through here.

        Raises:
            SettingsError: it lies elsewhere, is no regular file, or is too large for a form.
        """
        root, found = self.root.resolve(), _resolved(name)
        if not found.is_relative_to(root) and found not in [plugin.resolve() for plugin in self.plugins]:
            raise SettingsError(
                f"a file that the page reads lies below {root}, however: {name!r} does not. Copy it there, or use the "
                "command line."
            )
        size = _size(found)
        if size is None:
            raise SettingsError(f"a file must be there, however: {name!r} is no file. Is the path right?")
        if size > MOST_BYTES:
            raise SettingsError(
                f"a file that the page reads has at most {MOST_BYTES // MIB} MB, however: {name!r} has {size // MIB}. "
                "Use the command line."
            )
        return found

    @property
    def scratch(self) -> Path:
        """Folder for uploads and downloads."""
        return self.store / "app"


def _resolved(name: str) -> Path:
    try:
        return Path(name).resolve()
    # Links in a circle are a RuntimeError, and names with a zero byte a ValueError.
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingsError(f"a file must be there, however: {name!r} is no path. Correct it.") from error


def _size(path: Path) -> int | None:
    """Bytes of a regular file; None where there is none that can be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def count_folders(store: Path) -> int:
    """How many runs a store has, by their folders."""
    runs = store / "runs"
    return sum(not path.name.startswith(".") for path in runs.iterdir()) if runs.is_dir() else 0


@lru_cache(maxsize=64)
def _facts(path: Path, _written: int) -> CacheFacts:
    found = cache_info(path)
    columns = {name: f"{each['model']}, {each['dim']} numbers" for name, each in found["columns"].items()}
    return CacheFacts(found["n_ok"], dict(found["classes"]), columns)


@dataclass(frozen=True)
class _Found:
    """What lies below a root."""

    caches: tuple[Path, ...]
    stores: tuple[Path, ...]


@lru_cache(maxsize=8)
def _below(root: Path, _period: int) -> _Found:
    caches, stores = [], []
    for folder, inner, files in os.walk(root):
        here = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if {"cache.json", "manifest.json"} <= set(files):
            caches.append(here)
            inner.clear()
        elif _is_store(here, inner):
            stores.append(here)
            # Thousands of runs and jobs are not walked through.
            inner[:] = [name for name in inner if name not in ("runs", "jobs", "failed", "checkpoints", "app")]
        if len(here.relative_to(root).parts) >= DEPTH:
            inner.clear()
    return _Found(tuple(caches), tuple(stores))


def _is_store(folder: Path, inner: list[str]) -> bool:
    """Whether a folder has a folder `runs` with a finished run in it."""
    if "runs" not in inner or (folder / "runs").is_symlink():
        return False
    try:
        with os.scandir(folder / "runs") as entries:
            return any((folder / "runs" / entry.name / "record.json").is_file() for entry in entries)
    except PermissionError:
        return False  # of somebody else
