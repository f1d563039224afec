"""All benchmarks of the embedding cache: time and memory to create a cache, and time to read one.

Runs `extract`, `memory` and `reading`, which can also be run separately.
"""

from collections.abc import Iterator
from pathlib import Path

from frostbench.benchmarks.speed import extract, memory, reading
from frostbench.benchmarks.speed.harness import Figure


def figures(quick: bool, images: Path | None = None) -> Iterator[Figure]:
    """Yield all figures of the three benchmarks; `images` is a source of images for `extract`."""
    yield from reading.figures(quick)
    yield from memory.figures(quick)
    yield from extract.figures(quick, images)
