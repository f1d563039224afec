"""Paired timing: ours and a peer alternately in one process, so that a busy machine slows both alike."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

Action = Callable[[], object]


@dataclass(frozen=True)
class Figure:
    """One measured ratio.

    Attributes:
        name: benchmark and figure, as in "cache.view".
        ratio: the peer's seconds over ours, or ours over the peer's where `unit` says so: larger is better.
        spread: interquartile range of the paired ratios.
        goal: the least ratio that is good enough.
        ok: whether the goal is met.
        unit: what the ratio is, in words.
        ours: our median, in seconds unless `unit` says otherwise.
        peer: the peer's median, in the same unit.
    """

    name: str
    ratio: float
    spread: float
    goal: float
    ok: bool
    unit: str
    ours: float
    peer: float


Benchmark = Callable[[bool], Iterator[Figure]]
"""Yields its figures one after the other; the argument asks for a quick run."""


def compare(name: str, ours: Action, peer: Action, *, goal: float, repeats: int, unit: str) -> Figure:
    """Time two actions that do the same job, alternately.

    Each runs once unmeasured. Then both run `repeats` times in pairs, and each pair swaps who goes first, so that
    neither always finds the caches as the other left them. What an action returns is dropped before the next starts.
    """
    for action in (peer, ours):
        action()
    pairs = []
    for i in range(repeats):
        if i % 2:
            peer_seconds, our_seconds = seconds(peer), seconds(ours)
        else:
            our_seconds, peer_seconds = seconds(ours), seconds(peer)
        pairs.append((our_seconds, peer_seconds))
    return figure(name, pairs, [theirs / mine for mine, theirs in pairs], goal=goal, unit=unit)


def turns(actions: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each action in each round; for jobs so long that each round is given other data.

    Round 0 is not measured. In each round every action gets the round's number, one after the other; another begins
    each time, and every second round goes backwards, so that none always follows the same other.
    """
    names, taken = list(actions), {name: list[float]() for name in actions}
    for turn in range(rounds + 1):
        at = turn % len(names)
        order = names[at:] + names[:at]
        for name in reversed(order) if turn // len(names) % 2 else order:
            spent = seconds(partial(actions[name], turn))
            if turn:
                taken[name].append(spent)
    return taken


def seconds(action: Action) -> float:
    """Wall time of one run of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def figure(
    name: str, pairs: Iterable[tuple[float, float]], ratios: Iterable[float], *, goal: float, unit: str
) -> Figure:
    """The figure of paired measurements (ours, peer): the median of the paired ratios, and their quartiles' distance.

    >>> figure("x", [(1, 2), (1, 3), (2, 8)], [2, 3, 4], goal=3, unit="times").ratio
    3.0
    """
    low, middle, high = np.quantile(list(ratios), [0.25, 0.5, 0.75]).tolist()
    ours, peer = np.median(list(pairs), axis=0).tolist()
    return Figure(name, middle, high - low, goal, middle >= goal, unit, ours, peer)


def line(measured: Figure) -> str:
    """A figure as one line of JSON, with four digits of each number."""
    tree = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in asdict(measured).items()
    }
    return json.dumps(tree)


def run(registry: Mapping[str, Benchmark], name: str, quick: bool, say: Callable[[str], None]) -> int:
    """Run a benchmark, saying each figure when it is there; returns the exit status: 1 where a goal is missed.

    Raises:
        ValueError: there is no such benchmark.
    """
    if name not in registry:
        raise ValueError(f"a benchmark is one of {sorted(registry)}, however: {name!r} was asked for. Choose of these.")
    missed = False
    for measured in registry[name](quick):
        say(line(measured))
        missed |= not measured.ok
    return int(missed)
