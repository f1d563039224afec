"""Parallel forward passes on a CPU, each in its own thread and with one torch thread.

A forward pass that is split over all cores waits after every layer for its slowest part, which is delayed by anything
else on that core, such as decoding or other programs. Parallel batches do not wait for each other, and their vectors do
not depend on the number of cores.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

from frostbench.embedcache.backbones.backbone import Backbone
from frostbench.embedcache.extraction.backbone_group import BackboneGroup

T = TypeVar("T")
R = TypeVar("R")


class ForwardPool:
    """Thread pool for forward passes; with one worker, calls run in the caller's thread.

    Threads live until the end of the `with` block.

    Attributes:
        count: number of calls that may run at the same time.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._threads = torch.get_num_threads()

    def __enter__(self) -> "ForwardPool":
        if self.count > 1:
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="forward", initializer=_one_thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            # The torch thread count that a worker sets also applies to threads that start later.
            torch.set_num_threads(self._threads)

    def map(self, function: Callable[[T], R], values: Iterable[T]) -> Iterator[R]:
        """Yield the results in the order of the values, of which up to twice `count` are submitted ahead."""
        if self._pool is None:
            yield from map(function, values)
            return
        pending: deque[Future[R]] = deque()
        for value in values:
            pending.append(self._pool.submit(function, value))
            if len(pending) >= 2 * self.count:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def pool_size_for(backbones: BackboneGroup) -> int:
    """Return the number of parallel forward passes: one per torch thread on a CPU, otherwise 1.

    It is also 1 for ONNX Runtime, which distributes work over cores itself; for compiled code, which is not
    thread-safe; and if another thread uses a backbone.
    """
    members = backbones.members.values()
    if backbones.is_shared or not all(isinstance(member, Backbone) and member.runs_beside_itself for member in members):
        return 1
    return torch.get_num_threads()


def _one_thread() -> None:
    torch.set_num_threads(1)
