"""Whether runs can be trained on data: asked before the first step, so that a mistake costs no training."""

from collections.abc import Sequence

from heads.head import Closed
from heads.posthoc import NoCalibration
from training.conflicts import check
from training.data import Data
from training.run import RunSpec


def check_data(runs: Sequence[RunSpec], data: Data) -> None:
    """Refuse runs that cannot be trained on data.

    Raises:
        ValueError: options of a run do not go together, a column, a part or a background class is missing, or a vector
            is not finite.
    """
    checked: set[tuple[str, ...]] = set()
    for run in runs:
        check(run)
        background_of(run, data)
        columns = columns_of(run, data)
        if columns not in checked:
            _check_finite(columns, data)
            checked.add(columns)
        _check_parts(run, data)


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


def _check_finite(columns: tuple[str, ...], data: Data) -> None:
    for role, part in (("train", data.train), ("select", data.select), ("calibrate", data.calibrate)):
        finite = part.features(columns).isfinite().flatten(1).all(1)
        if not finite.all():
            rows = (~finite).nonzero().squeeze(1).tolist()
            raise ValueError(
                f"vectors must be finite, however: {len(rows)} {role} rows of column {', '.join(columns)} hold NaN or "
                f"infinity, the first in row {rows[0]}. Run `frostbench cache verify`, and embed those images anew."
            )


def _check_parts(run: RunSpec, data: Data) -> None:
    if len(data.train) == 0:
        raise ValueError("training needs at least one row, however: the training part is empty. Check the split.")
    stepped = not isinstance(run.head.classifier, Closed)
    if stepped and len(data.select) == 0:
        raise ValueError(
            "training keeps the best epoch on the selection rows, however: there are none. "
            "Give the split a select share above 0."
        )
    if not isinstance(run.posthoc.calibration, NoCalibration) and len(data.calibrate) == 0:
        raise ValueError(
            "a temperature is fitted on calibration rows, however: there are none. "
            "Give the split a calibrate share above 0, or set posthoc.calibration.kind to none."
        )
