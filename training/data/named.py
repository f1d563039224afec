"""The columns and background classes that a run names in its data."""

from frostbench.training.data.part import Data
from frostbench.training.run import RunSpec


def columns_of(run: RunSpec, data: Data) -> tuple[str, ...]:
    """Return the columns that a run reads."""
    return run.columns or (data.first_column,)


def background_of(run: RunSpec, data: Data) -> tuple[int, ...]:
    """Return the indices of a run's background classes.

    Raises:
        ValueError: one is not a class of the data, or all classes are background.
    """
    unknown = [name for name in run.background if name not in data.class_names]
    if unknown:
        raise ValueError(
            f"Background classes must be classes of the table, got {unknown}. Its classes are "
            f"{list(data.class_names)[:20]}."
        )
    if len(run.background) == len(data.class_names):
        raise ValueError("At least one class must be foreground, but all classes are named as background. Name fewer.")
    return tuple(data.class_names.index(name) for name in run.background)
