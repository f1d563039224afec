"""The caches, runs and files that the page may access: those below one folder, and the page's own run store."""

import os
import stat
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from frostbench.benchmarks.settings.parsing import SettingsError

DEPTH = 4
"""Folder levels below the root that are searched for caches and run stores."""
STORE_FOLDERS = ("jobs", "failed", "checkpoints", "app", "trash", "claims")
"""Folders of a run store, beside `runs`, that are not searched."""
MIB = 2**20
MOST_BYTES = 100 * MIB
"""Maximum size of a file that a form may name, because the user waits while it is hashed."""
SECONDS = 5.0
"""How long a search result is reused: searching large folders is slow, and every change of the form needs it."""


@dataclass(frozen=True)
class CacheFacts:
    """Summary of a cache.

    Attributes:
        images: number of rows.
        classes: number of rows by class name, in class order.
        columns: backbone and dimension as text, by vector column.
    """

    images: int
    classes: dict[str, int]
    columns: dict[str, str]


@dataclass(frozen=True)
class Workspace:
    """Folders where the page finds caches and runs, and the store for its own runs.

    A browser can make the page read files below the root (after resolving links) and the caches, store and plugins
    named at the start. It cannot make the page read other files. The only thing that it can make the page
    fetch from the network is the weights of a backbone that a person names when adding photos.

    Attributes:
        root: folder that is searched for caches and run stores.
        named: caches named when the app was started; they are listed first.
        store: run store, which also holds the jobs.
        device: device for training heads, such as cpu or cuda.
        slots: number of jobs that may run at the same time.
        plugins: files whose losses and heads a job may execute; a browser cannot add others.
    """

    root: Path
    named: tuple[Path, ...]
    store: Path
    device: str = "cpu"
    slots: int = 1
    plugins: tuple[Path, ...] = ()

    def cache_names(self) -> list[str]:
        """Return the paths of finished caches as they would be written on the command line."""
        named = [str(path) for path in self.named]
        found, _ = _below(self.root, int(time.monotonic() / SECONDS))
        return named + [name for name in map(str, found) if name not in named]

    @staticmethod
    def search_again() -> None:
        """Search for caches and run stores at the next use, after one was made."""
        _below.cache_clear()

    def other_stores(self) -> list[Path]:
        """Return the run stores below the root, except the page's own."""
        _, found = _below(self.root, int(time.monotonic() / SECONDS))
        return [path for path in found if path.resolve() != self.store.resolve()]

    def describe_runs(self) -> str:
        """Return a sentence about existing runs; empty if there are none."""
        counts = [(count_runs(store), store) for store in (self.store, *self.other_stores())]
        existing = ", ".join(f"{runs:,} in {store}" for runs, store in counts if runs)
        return (
            f"Existing runs: {existing}. Settings that were already trained are not trained again." if existing else ""
        )

    def cache(self, name: str | None) -> Path:
        """Return the folder of a cache that the page may use.

        Raises:
            SettingsError: the name is not in `cache_names`.
        """
        known = self.cache_names()
        if name not in known:
            raise SettingsError(f"The cache must be one of {known}, got {name!r}. Choose one of these.")
        return Path(str(name))

    def facts(self, name: str) -> CacheFacts:
        """Return the summary of a cache.

        Raises:
            ValueError: the cache cannot be read.
        """
        path = self.cache(name)
        return _facts(path, (path / "manifest.json").stat().st_mtime_ns)

    def view_sets(self, name: str) -> dict[str, str]:
        """Return the role, "train" or "eval", of each readable view set of a cache.

        Raises:
            SettingsError: the name is not in `cache_names`.
        """
        from frostbench.embedcache.views.sets import view_roles

        return view_roles(self.cache(name))

    def file(self, name: str) -> Path:
        """Resolve a path that a browser sent, and check that the page may read it; needed for every such path.

        Raises:
            SettingsError: the file lies outside the root, is not a regular file, or is too large.
        """
        root, unreadable = self.root.resolve(), SettingsError(f"{name!r} is not a readable file. Check the path.")
        try:
            path = Path(name).resolve()
        # Circular links raise a RuntimeError, names with a zero byte a ValueError.
        except (OSError, RuntimeError, ValueError) as error:
            raise unreadable from error
        if not path.is_relative_to(root) and path not in [plugin.resolve() for plugin in self.plugins]:
            raise SettingsError(
                f"The page only reads files below {root}, and {name!r} is not. Copy it there, or use the command line."
            )
        try:
            status = path.stat()
        except OSError as error:
            raise unreadable from error
        if not stat.S_ISREG(status.st_mode):
            raise unreadable
        if status.st_size > MOST_BYTES:
            raise SettingsError(
                f"The page reads files of at most {MOST_BYTES // MIB} MiB, but {name!r} has {status.st_size // MIB} "
                "MiB. Use the command line."
            )
        return path

    def folder(self, name: str) -> Path:
        """Return a folder that a browser named, relative to the root.

        Raises:
            SettingsError: the folder lies outside the root (after resolving links), or is not a readable folder.
        """
        root = self.root.resolve()
        unreadable = SettingsError(f"{name!r} is not a readable folder below {root}. Check the path.")
        try:
            path = (self.root / name).resolve()
            if path.is_relative_to(root) and path.is_dir():
                return path
        # Circular links raise a RuntimeError, names with a zero byte a ValueError.
        except (OSError, RuntimeError, ValueError) as error:
            raise unreadable from error
        raise unreadable

    @property
    def scratch(self) -> Path:
        """Folder for uploads and downloads."""
        return self.store / "app"


def count_runs(store: Path) -> int:
    """Count the run folders of a store."""
    runs = store / "runs"
    return sum(not path.name.startswith(".") for path in runs.iterdir()) if runs.is_dir() else 0


@lru_cache(maxsize=64)
def _facts(path: Path, _written: int) -> CacheFacts:
    # Imports torch, which the server does after it has started.
    from frostbench.embedcache.checking.verify import cache_info

    info = cache_info(path)
    columns = {name: f"{column['model']}, {column['dim']} dimensions" for name, column in info["columns"].items()}
    return CacheFacts(info["n_ok"], dict(info["classes"]), columns)


@lru_cache(maxsize=8)
def _below(root: Path, _period: int) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the caches and the run stores below a root."""
    caches, stores = [], []
    for folder, inner, files in os.walk(root):
        here = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if {"cache.json", "manifest.json"} <= set(files):
            caches.append(here)
            inner.clear()
        elif _is_store(here, inner):
            stores.append(here)
            # Skip the folders of runs and jobs, of which there may be thousands.
            inner[:] = [name for name in inner if name not in (*STORE_FOLDERS, "runs")]
        if len(here.relative_to(root).parts) >= DEPTH:
            inner.clear()
    return tuple(caches), tuple(stores)


def _is_store(folder: Path, inner: list[str]) -> bool:
    """Whether a folder contains a folder `runs` with a finished run, or with a trash beside it."""
    if "runs" not in inner or (folder / "runs").is_symlink():
        return False
    if "trash" in inner and not (folder / "trash").is_symlink():
        return True
    try:
        with os.scandir(folder / "runs") as entries:
            return any((folder / "runs" / entry.name / "record.json").is_file() for entry in entries)
    except PermissionError:
        return False  # another user's folder
