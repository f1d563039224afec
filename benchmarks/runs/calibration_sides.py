"""Probabilities of a head before and after temperature scaling; no row is judged by a temperature it was fitted to."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from frostbench.embedcache.splits.making import Split
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import folds_of
from frostbench.heads.posthoc.spec import fit_temperature
from frostbench.training.metrics.calibration import calibration_metrics

Source = Literal["calibrate", "select", "folds"]
"""What temperatures are fitted to: calibration rows; for test rows, else selection rows; else folds of the judged."""


@dataclass(frozen=True)
class Rows:
    """Rows that are judged.

    Attributes:
        logits: [N, C] before any calibration, -inf for classes that were never trained.
        labels: [N] class indices.
        groups: [N] group numbers.
    """

    logits: Tensor
    labels: Tensor
    groups: Tensor


@dataclass(frozen=True)
class Scaled:
    """Rows after temperature scaling.

    Attributes:
        log_p: [N, C] log-probabilities.
        temperature: fitted to all rows that it may be; with folds, each row had that of the other folds.
    """

    log_p: Tensor
    temperature: float


def source_of(split: Split, role: str) -> Source:
    """What the temperatures for rows of a role are fitted to."""
    if (split.roles == "calibrate").any():
        return "calibrate"
    return "select" if role == "test" and (split.roles == "select").any() else "folds"


def scaled(rows: Rows, apart: Calibration | None) -> Scaled | None:
    """Rows after a temperature that was fitted to rows apart, or fold by fold to the others where there are none apart.

    None where there is nothing to fit to: no row of a trained class, or in one fold alone, one group alone, or logits
    that are NaN or infinite, as after a training that diverged.
    """
    fitted = (apart or Calibration(rows.logits, rows.labels)).known()
    if len(fitted.labels) == 0 or not (_are_numbers(fitted.logits) and _are_numbers(rows.logits)):
        return None
    temperature = fit_temperature(fitted.logits, fitted.labels)
    if apart is not None:
        return Scaled((rows.logits.double() / temperature).log_softmax(1), temperature)
    if bool((rows.groups == rows.groups[0]).all()):
        return None
    folds = folds_of(rows.labels, rows.groups)
    each = torch.ones(len(folds), 1, dtype=torch.float64)
    for fold in sorted(set(folds.tolist())):
        others = Calibration(rows.logits[folds != fold], rows.labels[folds != fold]).known()
        if len(others.labels) == 0:
            return None
        each[folds == fold] = fit_temperature(others.logits, others.labels)
    return Scaled((rows.logits.double() / each).log_softmax(1), temperature)


def _are_numbers(logits: Tensor) -> bool:
    """Whether logits can be scaled; -inf stands for a class that was never trained."""
    return not bool(logits.isnan().any() or logits.isposinf().any())


def both_sides(rows: Rows, apart: Calibration | None) -> dict[str, dict[str, float | None]]:
    """Calibration metrics of rows `before` and `after` temperature scaling, the latter with its temperature.

    There is no `after` where there is nothing to fit a temperature to (see `scaled`).
    """
    found = {"before": calibration_metrics(rows.logits.double().log_softmax(1), rows.labels)}
    after = scaled(rows, apart)
    if after is None:
        return found
    own: dict[str, float | None] = {"temperature": after.temperature}
    return found | {"after": own | calibration_metrics(after.log_p, rows.labels)}
