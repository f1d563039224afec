"""All benchmarks of heads: stacks against loops, a path of logistic regressions against scikit-learn's, and kNN."""

from collections.abc import Iterator

from frostbench.benchmarks.speed import cpath, neighbours, stacks
from frostbench.benchmarks.speed.harness import Figure


def figures(quick: bool) -> Iterator[Figure]:
    """Yield all figures of the three benchmarks."""
    yield from stacks.figures(quick)
    yield from cpath.figures(quick)
    yield from neighbours.figures(quick)
