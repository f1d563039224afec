"""The embedding cache as a whole: what it costs to make one, what memory that takes, and what reading one costs.

`extract`, `memory` and `reading` one after the other; each can be asked for alone as well.
"""

from collections.abc import Iterator
from pathlib import Path

from frostbench.benchmarks.speed import extract, memory, reading
from frostbench.benchmarks.speed.harness import Figure


def figures(quick: bool, images: Path | None = None) -> Iterator[Figure]:
    """All figures of the three; `images` is a source of images for the first."""
    yield from reading.figures(quick)
    yield from memory.figures(quick)
    yield from extract.figures(quick, images)
