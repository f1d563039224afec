"""Evaluates calibration before and after temperature scaling; no row is evaluated with a temperature fitted to it."""

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
"""Rows that temperatures are fitted to: the calibration rows; without any, the validation rows if test rows are
evaluated, else the evaluated rows by cross-fitting."""


@dataclass(frozen=True)
class Rows:
    """Evaluated rows.

    Attributes:
        logits: [N, C] before any calibration, -inf for classes without training rows.
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
        temperature: fitted to all available rows; with cross-fitting, each row uses that of the other folds.
    """

    log_p: Tensor
    temperature: float


def source_of(split: Split, role: str) -> Source:
    """Return which rows the temperature is fitted to when rows of a role are evaluated."""
    if (split.roles == "calibrate").any():
        return "calibrate"
    return "select" if role == "test" and (split.roles == "select").any() else "folds"


def scaled(rows: Rows, apart: Calibration | None) -> Scaled | None:
    """Scale rows by a temperature fitted to the separate rows `apart`, or cross-fitted if `apart` is None.

    Returns None if no temperature can be fitted: there are no rows of trained classes, they are all in one fold, there
    is only one group, or a logit is NaN or +inf, as after diverged training.
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
    temperatures = torch.ones(len(folds), 1, dtype=torch.float64)
    for fold in sorted(set(folds.tolist())):
        others = Calibration(rows.logits[folds != fold], rows.labels[folds != fold]).known()
        if len(others.labels) == 0:
            return None
        temperatures[folds == fold] = fit_temperature(others.logits, others.labels)
    return Scaled((rows.logits.double() / temperatures).log_softmax(1), temperature)


def _are_numbers(logits: Tensor) -> bool:
    # -inf is allowed: it marks a class without training rows.
    return not bool(logits.isnan().any() or logits.isposinf().any())


def both_sides(rows: Rows, apart: Calibration | None) -> dict[str, dict[str, float | None]]:
    """Compute calibration metrics `before` and `after` temperature scaling, the latter with the temperature.

    `after` is missing if no temperature can be fitted (see `scaled`).
    """
    sides = {"before": calibration_metrics(rows.logits.double().log_softmax(1), rows.labels)}
    after = scaled(rows, apart)
    if after is None:
        return sides
    temperature: dict[str, float | None] = {"temperature": after.temperature}
    return sides | {"after": temperature | calibration_metrics(after.log_p, rows.labels)}
