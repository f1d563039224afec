"""Whether what follows training can be fitted to the rows there are: asked before the first step."""

import torch
from torch import Tensor

from heads.calibrators.matrix import Matrix
from heads.decisions.shift import WantedShift
from training.crossfit import folds_of
from training.data import Data, Part
from training.run import RunSpec

WORDS = {"calibrate": "calibration", "select": "selection"}


def posthoc_part(run: RunSpec, data: Data) -> Part:
    """The rows that calibration and decisions are fitted to."""
    return data.select if run.posthoc.rows == "select" else data.calibrate


def check_posthoc(run: RunSpec, data: Data) -> None:
    """Refuse layers that cannot be fitted.

    Raises:
        ValueError: an option names no class, or a class without rows; there are no rows, none of a trained class, or
            too few for matrix calibration; or selection rows that fit and judge are of one group.
    """
    present = torch.bincount(data.train.labels.cpu(), minlength=len(data.class_names)) > 0
    _check_names(run, data, present)
    if not run.posthoc.reads_rows:
        return
    part, word = posthoc_part(run, data), WORDS[run.posthoc.rows]
    labels = part.labels.cpu()
    if len(labels) == 0:
        instead = "posthoc.rows=select, or " if run.posthoc.rows == "calibrate" and len(data.select) > 0 else ""
        raise ValueError(
            f"calibration and decisions are fitted on {word} rows, however: there are none. Give the split a "
            f"{run.posthoc.rows} share above 0, or set {instead}posthoc.calibration.kind, thresholds.kind and "
            "shift.kind to none."
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
    if run.posthoc.rows == "select":
        folds_of(labels, None if part.groups is None else part.groups.cpu())


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
