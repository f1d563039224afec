"""Properties of a run as functions, for second stages."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frostbench.training.run import RunSpec


def is_bare(run: "RunSpec") -> bool:
    """Return `run.is_bare`."""
    return run.is_bare


def is_shifted(run: "RunSpec") -> bool:
    """Return `run.is_shifted`."""
    return run.is_shifted
