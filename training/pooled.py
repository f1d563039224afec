"""Choices made on predictions for held-out rows, pooled over the folds of a cross-validation.

Each is made twice: from all rows, for the head that is fitted to all rows in the end, and for each fold from the rows
of the other folds, for the predictions on that fold. So nothing that is fitted to a row's label helps to predict it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.posthoc import NoCalibration, fit_temperature
from heads.trained import Calibration
from training.closing import POWERS
from training.finish import TAUS
from training.metrics import all_metrics, to_raise
from training.run import RunSpec
from training.second import TauNorm


@dataclass(frozen=True)
class HeldOut:
    """What heads that did not see a row say of it, for each row of a table.

    Attributes:
        logits: [P, N, C] without any post-hoc shift, for P powers of tau-normalisation, or one; -inf for classes
            without a training row.
        log_prior: [N, C] log of the prior that these logits carry; 0 for classes without a training row.
        labels: [N].
        folds: [N] number of the fold in which each row was held out.
        counts: [C] rows of each class.
        background: indices of the background classes.
    """

    logits: Tensor
    log_prior: Tensor
    labels: Tensor
    folds: Tensor
    counts: Tensor
    background: tuple[int, ...]


@dataclass(frozen=True)
class Pooled:
    """What was chosen on held-out rows.

    Attributes:
        power: of tau-normalisation, for the final head; None where it is not asked for, or given.
        tau: strength of the post-hoc shift, for the final head.
        temperature: for the final head; 1 where it is not calibrated.
        calibration: rows for temperatures under other priors; None where it is not calibrated.
        logits: [N, C] with the shift that the other folds chose, before any temperature.
        log_p: [N, C] log-probabilities with the temperature of the other folds.
    """

    power: float | None
    tau: float
    temperature: float
    calibration: Calibration | None
    logits: Tensor
    log_p: Tensor


def pooled(run: RunSpec, held: HeldOut) -> Pooled:
    """Power, strength and temperature for a run from its predictions on held-out rows.

    Raises:
        ValueError: no held-out row belongs to a class that the metric counts, or to one that was trained without it.
    """
    chosen = run.train.early_stop.metric
    metric = "macro_f1_fg" if chosen == "last" else chosen
    is_power_free = isinstance(run.second, TauNorm) and run.second.tau is None
    powers = POWERS if is_power_free else (0.0,)
    place, places = _chosen(held, metric, len(powers), lambda at: held.logits[at])
    own = _by_fold(held, places, lambda at: held.logits[at])
    adjustment = run.posthoc.adjustment
    taus = TAUS if adjustment.rule == "tuned" else (adjustment.tau,)
    at, each = _chosen(held, metric, len(taus), lambda i: own - taus[i] * held.log_prior)
    logits = _by_fold(held, each, lambda i: own - taus[i] * held.log_prior)
    final = held.logits[place] - taus[at] * held.log_prior
    temperature, calibration, log_p = _calibrated(run, held, final, logits)
    return Pooled(powers[place] if is_power_free else None, taus[at], temperature, calibration, logits, log_p)


def _chosen(held: HeldOut, metric: str, count: int, logits: Callable[[int], Tensor]) -> tuple[int, dict[int, int]]:
    """The best of some candidates by all rows, and for each fold by the rows of the others; the first among equals."""
    numbers = sorted(set(held.folds.tolist()))
    if count == 1:
        return 0, dict.fromkeys(numbers, 0)
    log_p = [logits(i).log_softmax(1) for i in range(count)]

    def best(rows: Tensor) -> int:
        def value(i: int) -> float:
            return to_raise(all_metrics(log_p[i][rows], held.labels[rows], held.counts, held.background), metric)

        return max(range(count), key=value)

    everything = torch.ones_like(held.folds, dtype=torch.bool)
    return best(everything), {fold: best(held.folds != fold) for fold in numbers}


def _by_fold(held: HeldOut, places: dict[int, int], logits: Callable[[int], Tensor]) -> Tensor:
    """Logits [N, C] whose rows are those of the candidate that was chosen for their fold."""
    found = torch.empty_like(held.logits[0])
    for fold, place in places.items():
        rows = held.folds == fold
        found[rows] = logits(place)[rows]
    return found


def _calibrated(run: RunSpec, held: HeldOut, final: Tensor, logits: Tensor) -> tuple[float, Calibration | None, Tensor]:
    """The temperature of all rows, the rows it was fitted on, and log-probabilities [N, C] by those of other folds."""
    if isinstance(run.posthoc.calibration, NoCalibration):
        return 1.0, None, logits.log_softmax(1)
    known = final.gather(1, held.labels[:, None]).squeeze(1).isfinite()
    if not known.any():
        raise ValueError(
            "a temperature is fitted on held-out rows of classes that were trained without them, however: there are "
            "none. Give classes several groups, or set posthoc.calibration.kind to none."
        )
    rows = Calibration(final[known], held.labels[known])
    temperature = fit_temperature(rows.logits, rows.labels)
    scale = logits.new_ones(len(logits), 1)
    for fold in sorted(set(held.folds.tolist())):
        others = known & (held.folds != fold)
        if others.any():
            scale[held.folds == fold] = fit_temperature(logits[others], held.labels[others])
    return temperature, rows, (logits / scale).log_softmax(1)
