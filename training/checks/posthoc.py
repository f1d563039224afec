"""Checks, before training, that calibration and decisions can be fitted to the available rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.crossfit import folds_of
from frostbench.heads.posthoc.decisions.shift import WantedShift
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.training.data.part import Data, Part
from frostbench.training.run import RunSpec

WORDS = {"calibrate": "calibration", "select": "validation", "both": "calibration and validation"}
ENOUGH_ROWS = 100
"""Number of calibration rows from which an automatic temperature uses these alone; below it, also validation rows."""
ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"calibrate": ("calibrate",), "select": ("select",), "both": ("calibrate", "select")}
)
"""Roles of the rows behind each value of posthoc.rows."""
FittedTo = Literal["calibrate", "select", "both"]


def rows_of_posthoc(posthoc: PosthocSpec, calibrate: int, select_groups: int) -> FittedTo:
    """Return the rows that calibration and decisions are fitted to, with `auto` resolved by their numbers.

    Args:
        posthoc: post-hoc settings of the run.
        calibrate: number of calibration rows of trained classes.
        select_groups: number of groups of the validation rows.
    """
    if posthoc.rows != "auto":
        return posthoc.rows
    return "calibrate" if posthoc.needs_rows or calibrate >= ENOUGH_ROWS or select_groups < 2 else "both"


def fitted_to(run: RunSpec, data: Data) -> FittedTo:
    """Return the rows that calibration and decisions of a run are fitted to."""
    present = torch.bincount(data.train.labels.cpu(), minlength=len(data.class_names)) > 0
    select = data.select
    groups = len(select) if select.groups is None else len(torch.unique(select.groups))
    return rows_of_posthoc(run.posthoc, int(present[data.calibrate.labels.cpu()].sum()), groups)


def posthoc_parts(rows: FittedTo, data: Data) -> tuple[Part, ...]:
    """Return the parts that calibration and decisions are fitted to."""
    return tuple(getattr(data, role) for role in ROLES[rows])


def check_posthoc(run: RunSpec, data: Data) -> None:
    """Refuse post-hoc steps that cannot be fitted.

    Raises:
        ValueError: an option names an unknown class or one without rows; there are no rows, no rows of a trained class,
            or too few for matrix calibration; or cross-fitting is needed and all validation rows belong to one group.
    """
    present = torch.bincount(data.train.labels.cpu(), minlength=len(data.class_names)) > 0
    _check_names(run, data, present)
    rows = fitted_to(run, data)
    if run.posthoc.reads_rows and rows != "calibrate" and len(data.select) > 0:
        select_folds(data)
    if not run.posthoc.needs_rows:
        return
    word = WORDS[rows]
    labels = torch.cat([part.labels.cpu() for part in posthoc_parts(rows, data)])
    if len(labels) == 0:
        instead = "posthoc.rows=select, or " if rows == "calibrate" and len(data.select) > 0 else ""
        share = "calibrate or select" if rows == "both" else rows
        raise ValueError(
            f"Calibration and decisions are fitted to the {word} rows, but there are none. Give the split a {share} "
            f"share above 0, or set {instead}posthoc.calibration.kind, thresholds.kind and shift.kind to none."
        )
    known = labels[present[labels]]
    if len(known) == 0:
        found = f"the only {word} row belongs" if len(labels) == 1 else f"all {len(labels)} {word} rows belong"
        raise ValueError(
            f"Calibration and decisions need rows of trained classes, but {found} to others. Change "
            "the split, or set posthoc.calibration.kind, thresholds.kind and shift.kind to none."
        )
    if isinstance(run.posthoc.calibration, Matrix):
        run.posthoc.calibration.check_size(len(known), int(present.sum()))
    if isinstance(run.posthoc.shift, WantedShift):
        _check_targets(run.posthoc.shift, known, data, word)


def select_folds(data: Data) -> Tensor:
    """Return the fold [N] of each validation row, for cross-fitted post-hoc steps.

    Raises:
        ValueError: all rows are of one group.
    """
    groups = data.select.groups
    return folds_of(data.select.labels.cpu(), None if groups is None else groups.cpu())


def _check_names(run: RunSpec, data: Data, present: Tensor) -> None:
    """Refuse class names without training rows."""
    run.posthoc.deployed(data.class_names, present)
    trained = {name for name, known in zip(data.class_names, present.tolist(), strict=True) if known}
    for option, names in run.posthoc.named().items():
        unknown = [name for name in names if name not in trained]
        if unknown and option != "posthoc.deploy_prior":
            raise ValueError(
                f"{option} must name classes with training rows, got {unknown[:8]}. Choose from {sorted(trained)[:20]}."
            )


def _check_targets(shift: WantedShift, labels: Tensor, data: Data, word: str) -> None:
    """Refuse a wanted recall or precision of a class without rows."""
    with_rows = {data.class_names[index] for index in labels.tolist()}
    lacking = [name for name in shift.targets if name not in with_rows]
    if lacking:
        raise ValueError(
            f"The {shift.metric} of a class is measured on its {word} rows, but {lacking[:8]} have none. Remove them "
            "from posthoc.shift.targets, or give them rows in the split."
        )
