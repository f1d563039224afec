"""Whether what follows training can be fitted to the rows there are: asked before the first step."""

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

WORDS = {"calibrate": "calibration", "select": "selection", "both": "calibration and selection"}
ENOUGH_ROWS = 100
"""Calibration rows from which an automatic temperature is fitted to them alone; below, selection rows take part."""
ROLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"calibrate": ("calibrate",), "select": ("select",), "both": ("calibrate", "select")}
)
"""The roles of the rows that each name stands for."""
FittedTo = Literal["calibrate", "select", "both"]


def rows_of_posthoc(posthoc: PosthocSpec, calibrate: int, select_groups: int) -> FittedTo:
    """Which rows calibration and decisions are fitted to: those asked for, or what `auto` means by how many there are.

    Args:
        posthoc: what is asked for.
        calibrate: how many calibration rows of trained classes there are.
        select_groups: how many groups the selection rows are of.
    """
    if posthoc.rows != "auto":
        return posthoc.rows
    return "calibrate" if posthoc.needs_rows or calibrate >= ENOUGH_ROWS or select_groups < 2 else "both"


def fitted_to(run: RunSpec, data: Data) -> FittedTo:
    """Which rows the calibration and decisions of a run are fitted to."""
    present = torch.bincount(data.train.labels.cpu(), minlength=len(data.class_names)) > 0
    select = data.select
    groups = len(select) if select.groups is None else len(torch.unique(select.groups))
    return rows_of_posthoc(run.posthoc, int(present[data.calibrate.labels.cpu()].sum()), groups)


def posthoc_parts(rows: FittedTo, data: Data) -> tuple[Part, ...]:
    """The rows that calibration and decisions are fitted to."""
    return tuple(getattr(data, role) for role in ROLES[rows])


def check_posthoc(run: RunSpec, data: Data) -> None:
    """Refuse layers that cannot be fitted.

    Raises:
        ValueError: an option names no class, or a class without rows; there are no rows, none of a trained class, or
            too few for matrix calibration; or selection rows that fit and judge are of one group.
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
            f"calibration and decisions are fitted on {word} rows, however: there are none. Give the split a {share} "
            f"share above 0, or set {instead}posthoc.calibration.kind, thresholds.kind and shift.kind to none."
        )
    known = labels[present[labels]]
    if len(known) == 0:
        raise ValueError(
            f"calibration and decisions are fitted on rows of trained classes, however: none of the {len(labels)} "
            f"{word} rows belongs to one. Change the split, or set posthoc.calibration.kind, thresholds.kind and "
            "shift.kind to none."
        )
    if isinstance(run.posthoc.calibration, Matrix):
        run.posthoc.calibration.check_size(len(known), int(present.sum()))
    if isinstance(run.posthoc.shift, WantedShift):
        _check_targets(run.posthoc.shift, known, data, word)


def select_folds(data: Data) -> Tensor:
    """Folds [N] of the selection rows, each judged by layers that were fitted without it.

    Raises:
        ValueError: they are of one group.
    """
    groups = data.select.groups
    return folds_of(data.select.labels.cpu(), None if groups is None else groups.cpu())


def _check_names(run: RunSpec, data: Data, present: Tensor) -> None:
    """Options name classes of the table that have training rows."""
    run.posthoc.deployed(data.class_names, present)
    trained = {name for name, known in zip(data.class_names, present.tolist(), strict=True) if known}
    for option, names in run.posthoc.named().items():
        unknown = [name for name in names if name not in trained]
        if unknown and option != "posthoc.deploy_prior":
            raise ValueError(
                f"{option} names trained classes, however: {unknown[:8]} came. They are {sorted(trained)[:20]}."
            )


def _check_targets(shift: WantedShift, labels: Tensor, data: Data, word: str) -> None:
    """Classes with a wanted recall or precision have rows to measure it on."""
    found = {data.class_names[index] for index in labels.tolist()}
    lacking = [name for name in shift.targets if name not in found]
    if lacking:
        raise ValueError(
            f"the {shift.metric} of a class is measured on its {word} rows, however: {lacking[:8]} have none. Take "
            "them out of posthoc.shift.targets, or give them rows in the split."
        )
