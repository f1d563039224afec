"""What the page may touch: caches and files below one folder, and one run store."""

import os
import stat
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.settings import SettingsError
from embedcache.checking.verify import cache_info
from embedcache.views.sets import view_roles

DEPTH = 4
"""Levels of folders below the root that are searched for caches."""
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
    """Where the page finds caches and keeps runs.

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
        found = _caches_below(self.root, int(time.monotonic() / SECONDS))
        return named + [name for name in map(str, found) if name not in named]

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


@lru_cache(maxsize=64)
def _facts(path: Path, _written: int) -> CacheFacts:
    found = cache_info(path)
    columns = {name: f"{each['model']}, {each['dim']} numbers" for name, each in found["columns"].items()}
    return CacheFacts(found["n_ok"], dict(found["classes"]), columns)


@lru_cache(maxsize=8)
def _caches_below(root: Path, _period: int) -> tuple[Path, ...]:
    found = []
    for folder, inner, files in os.walk(root):
        here = Path(folder)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if {"cache.json", "manifest.json"} <= set(files):
            found.append(here)
            inner.clear()
        elif len(here.relative_to(root).parts) >= DEPTH or "record.json" in files:
            inner.clear()
    return tuple(found)
