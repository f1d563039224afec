"""Claims: which process trains which run, so that several processes can share a bench without repeating work.

    STORE/claims/KEY.json        the process that trains the run; its modification time is renewed while it does
    STORE/claims/.lock           held for milliseconds while claims are taken or released

A claim ends when its run is stored, when its process ends, or when it has not been renewed for a minute, for example
because its machine was switched off. The run is then free for the next process. If a process merely stood still for
that long, the run is trained twice and stored once.
"""

import json
import os
import socket
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from filelock import FileLock

from frostbench.benchmarks.runs.store import run_folder

LEASE_SECONDS = 60.0
"""Age from which a claim that is not renewed is free."""
RENEWALS = 6
"""Number of renewals within the lease."""
START_TOLERANCE_SECONDS = 2.0
"""Start times of a process, which are computed from the boot time, differ by less than this between readers."""


class Claims:
    """The claims of this process on runs of a store; a context manager that releases them at its end."""

    def __init__(self, store: Path, lease_seconds: float = LEASE_SECONDS) -> None:
        self._folder = store / "claims"
        self._lease = lease_seconds
        self._held: set[str] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.release(sorted(self._held))

    def take(self, keys: Sequence[str]) -> list[str]:
        """Claim the runs among these keys that no other process trains, and return their keys."""
        with self._lock():
            now = self.now()
            mine = [key for key in keys if self._is_free(self._path(key), now)]
            for key in mine:
                self._path(key).write_text(json.dumps(_myself()), encoding="utf-8")
            self._held |= set(mine)
        if mine and self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="claims", daemon=True)
            self._thread.start()
        return mine

    def release(self, keys: Sequence[str]) -> None:
        """Give up claims of this process; a claim that another process has taken over is left alone."""
        with self._lock():
            for key in keys:
                if key in self._held and _is_mine(_read(self._path(key))):
                    self._path(key).unlink(missing_ok=True)
                self._held.discard(key)

    def holders(self, keys: Sequence[str]) -> list[str]:
        """Describe the processes that hold claims on these keys, each once."""
        holders = (_read(self._path(key)) for key in keys)
        return list(dict.fromkeys(f"process {held['pid']} on {held['host']}" for held in holders if held))

    def now(self) -> float:
        """Return the time by the clock of the file system that holds the claims, which may be another machine's."""
        clock = self._folder / f".{uuid.uuid4().hex}.tmp"
        try:
            clock.touch()
            return clock.stat().st_mtime
        finally:
            clock.unlink(missing_ok=True)

    def clear_old(self) -> None:
        """Delete the claims of processes that ended without releasing them, such as on a run stored just before."""
        if not self._folder.is_dir():
            return
        with self._lock():
            now = self.now()
            for path in sorted(self._folder.glob("*.json")):
                if self._is_free(path, now) and not _is_mine(_read(path)):
                    path.unlink(missing_ok=True)

    def _lock(self) -> FileLock:
        return FileLock(self._folder / ".lock", thread_local=False)

    def _path(self, key: str) -> Path:
        return self._folder / f"{run_folder(Path(), key).name}.json"

    def _is_free(self, path: Path, now: float) -> bool:
        try:
            written = path.stat().st_mtime
        except FileNotFoundError:
            return True
        held = _read(path)
        return held is None or _is_mine(held) or now - written > self._lease or _has_ended(held)

    def _renew(self) -> None:
        """Renew the modification time of the claims until they are released; runs in a thread of its own."""
        while not self._ended.wait(self._lease / RENEWALS):
            for key in sorted(self._held):
                with suppress(OSError):  # a claim that was released meanwhile
                    os.utime(self._path(key))


def _myself() -> dict[str, object]:
    process = psutil.Process()
    return {"host": socket.gethostname(), "pid": process.pid, "started": process.create_time()}


def _is_mine(held: dict[str, object] | None) -> bool:
    return held is not None and (held["host"], held["pid"]) == (socket.gethostname(), os.getpid())


def _read(path: Path) -> dict[str, object] | None:
    """Return the holder of a claim, or None if there is none or the file is damaged."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return {name: held[name] for name in ("host", "pid", "started")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _has_ended(held: dict[str, object]) -> bool:
    """Return whether the holder ran on this machine and has ended."""
    pid, started = held["pid"], held["started"]
    if held["host"] != socket.gethostname() or not isinstance(pid, int) or not isinstance(started, float):
        return False
    try:
        return abs(psutil.Process(pid).create_time() - started) > START_TOLERANCE_SECONDS
    except psutil.NoSuchProcess:
        return True
