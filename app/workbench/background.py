"""Results that take too long to wait for: computed in a thread while the page asks now and then."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

MOST_KEPT = 8
"""Largest number of results that are kept; the ones not asked for the longest are dropped."""


class Background:
    """Computes one result after another and keeps the latest ones."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "background")
        self._found: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any | None:
        """Return a result, or None while it is computed, which the first call begins.

        Raises:
            Exception: what `compute` raised; it is told once, and the next call tries again.
        """
        with self._lock:
            future = self._found.get(key)
            if future is None:
                future = self._found[key] = self._pool.submit(compute)
            self._found.move_to_end(key)
            if future.done() and future.exception() is not None:
                del self._found[key]
            finished = [one for one, result in self._found.items() if result.done() and one != key]
            for old in finished[: max(0, len(self._found) - MOST_KEPT)]:
                del self._found[old]
        return future.result() if future.done() else None

    def known(self, key: Hashable) -> Any | None:
        """Return a result that is there already, or None; nothing is begun."""
        with self._lock:
            future = self._found.get(key)
            is_there = future is not None and future.done() and future.exception() is None
        return future.result() if future is not None and is_there else None
