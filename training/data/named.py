"""Columns and classes of the data that a run names."""

from frostbench.training.data.part import Data
from frostbench.training.run import RunSpec


def columns_of(run: RunSpec, data: Data) -> tuple[str, ...]:
    """The columns that a run reads."""
    return run.columns or (data.first_column,)


def background_of(run: RunSpec, data: Data) -> tuple[int, ...]:
    """Indices of a run's background classes.

    Raises:
        ValueError: one is not a class of the data, or they are all of them.
    """
    unknown = [name for name in run.background if name not in data.class_names]
    if unknown:
        raise ValueError(
            f"background classes must be classes of the table, however: {unknown} came. "
            f"Its classes are {list(data.class_names)[:20]}."
        )
    if len(run.background) == len(data.class_names):
        raise ValueError("some class must be foreground, however: every class is named as background. Name fewer.")
    return tuple(data.class_names.index(name) for name in run.background)
