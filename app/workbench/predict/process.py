"""The process that predicts and makes bundles: started when it is first needed, ended when it has been idle for long.

Backbones take hundreds of megabytes, and a hostile image can only end this process, not the server.
"""

import importlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from frostbench.app.workbench.requests import RequestError

MODULES = "frostbench.app.workbench"
"""Package of the functions that are called; only the process imports their modules."""
IDLE_SECONDS = 600.0
ENDED = (
    "The process that predicts has ended, perhaps because memory was short. Predict again with fewer or smaller images."
)
WATCH_SECONDS = 2.0


class PredictionProcess:
    """Runs functions of the page in one process, one after another.

    Args:
        ended: message for when the process has ended by itself.
    """

    def __init__(self, ended: str = ENDED) -> None:
        self._ended = ended
        self._pool: ProcessPoolExecutor | None = None
        self._calls = 0
        self._lock = threading.Lock()

    def call(self, name: str, *arguments: object) -> Any:
        """Run a function, named such as `predict.engine.begin`, and return its result.

        Raises:
            RequestError: the process has ended, for example because memory was short.
            Exception: what the function raised.
        """
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare, (os.getpid(),))
            pool, self._calls = self._pool, self._calls + 1
        try:
            return pool.submit(_run, name, *arguments).result()
        except BrokenProcessPool as error:
            self.end(pool)
            raise RequestError(self._ended) from error
        finally:
            self._end_later()

    def end(self, pool: ProcessPoolExecutor | None = None) -> None:
        """End the process; if a pool is given, only if it is still that one's."""
        with self._lock:
            if self._pool is None or pool not in (None, self._pool):
                return
            ended, self._pool = self._pool, None
        ended.shutdown(wait=False, cancel_futures=True)

    def _end_later(self) -> None:
        with self._lock:
            calls, pool = self._calls, self._pool
        timer = threading.Timer(IDLE_SECONDS, lambda: self.end(pool) if self._calls == calls else None)
        timer.daemon = True
        timer.start()


def _run(name: str, *arguments: object) -> Any:
    module, function = name.rsplit(".", 1)
    return getattr(importlib.import_module(f"{MODULES}.{module}"), function)(*arguments)


def _prepare(server: int) -> None:
    """Leave Ctrl-C to the server, and end when the server does, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(server,), daemon=True).start()


def _watch(server: int) -> None:
    while os.getppid() == server:
        time.sleep(WATCH_SECONDS)
    os._exit(0)
