"""Forward passes side by side on a CPU, each in a thread of its own and with one thread of torch.

A forward pass that is split over all cores waits at the end of every layer for its slowest part, and so for whatever
else runs on that core: decoding, or other programs. Whole batches side by side never wait for each other, and their
vectors do not depend on how many cores there are.
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
    """Calls a function on one thing after another, up to `count` of them at the same time.

    With one lane everything happens in the caller's thread. Threads live until the end of the `with` block.

    Attributes:
        count: how many calls may run at the same time.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._threads = torch.get_num_threads()

    def __enter__(self) -> "ForwardPool":
        if self.count > 1:
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="lane", initializer=_one_thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            # What a lane sets holds for threads that begin later, too.
            torch.set_num_threads(self._threads)

    def map(self, function: Callable[[T], R], things: Iterable[T]) -> Iterator[R]:
        """Results in the order of the things, of which up to 2 `count` are taken ahead."""
        if self._pool is None:
            yield from map(function, things)
            return
        pending: deque[Future[R]] = deque()
        for thing in things:
            pending.append(self._pool.submit(function, thing))
            if len(pending) >= 2 * self.count:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def pool_size_for(backbones: BackboneGroup) -> int:
    """How many forward passes of backbones run well at the same time: one for each thread of torch on a CPU, else 1.

    ONNX Runtime divides the cores itself, compiled code is not made for several threads, and an alteration may ask a
    backbone from a thread of its own.
    """
    members = backbones.members.values()
    if backbones.is_shared or not all(isinstance(one, Backbone) and one.runs_beside_itself for one in members):
        return 1
    return torch.get_num_threads()


def _one_thread() -> None:
    torch.set_num_threads(1)
