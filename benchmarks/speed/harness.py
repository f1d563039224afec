"""Paired timing: ours and a peer alternate in one process, so that a busy machine slows both equally."""

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
        name: benchmark and figure, such as "cache.view".
        ratio: the peer's seconds divided by ours, or as `unit` says; larger is better.
        spread: interquartile range of the paired ratios.
        goal: smallest acceptable ratio.
        ok: whether the goal is met.
        unit: description of the ratio.
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
"""Function that yields figures; the argument requests a quick run."""


def compare(name: str, ours: Action, peer: Action, *, goal: float, repeats: int, unit: str) -> Figure:
    """Time two actions that do the same job, alternately.

    Each runs once unmeasured. Then both run `repeats` times in pairs that swap the order, so that caches favour
    neither. The result of an action is dropped before the next one starts.
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
    """Return the seconds of each action in each round; for long jobs that get different data in each round.

    Round 0 is not measured. In each round every action is called with the round's number. The first action rotates and
    every second cycle runs backwards, so that no action always follows the same other.
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
    """Return the wall time of one run of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def figure(
    name: str, pairs: Iterable[tuple[float, float]], ratios: Iterable[float], *, goal: float, unit: str
) -> Figure:
    """Build a figure from paired measurements (ours, peer): median and interquartile range of the ratios.

    >>> figure("x", [(1, 2), (1, 3), (2, 8)], [2, 3, 4], goal=3, unit="times").ratio
    3.0
    """
    low, middle, high = np.quantile(list(ratios), [0.25, 0.5, 0.75]).tolist()
    ours, peer = np.median(list(pairs), axis=0).tolist()
    return Figure(name, middle, high - low, goal, middle >= goal, unit, ours, peer)


def line(result: Figure) -> str:
    """Format a figure as one line of JSON, with four significant digits per number."""
    tree = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in asdict(result).items()}
    return json.dumps(tree)


def run(registry: Mapping[str, Benchmark], name: str, quick: bool, emit: Callable[[str], None]) -> int:
    """Run a benchmark and emit each figure as soon as it is measured; return exit status 1 if a goal is missed.

    Raises:
        ValueError: the benchmark does not exist.
    """
    if name not in registry:
        raise ValueError(f"A benchmark must be one of {sorted(registry)}, got {name!r}. Choose one of them.")
    missed = False
    for result in registry[name](quick):
        emit(line(result))
        missed |= not result.ok
    return int(missed)
