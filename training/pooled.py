"""Choices made on predictions for held-out rows, pooled over the folds of a cross-validation.

Each is made twice: from all rows, for the head that is fitted to all rows in the end, and for each fold from the rows
of the other folds, for the predictions on that fold. So nothing that is fitted to a row's label helps to predict it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.calibrators.rows import Calibration
from heads.layers import Layers
from training.closing import POWERS
from training.crossfit import Answers, cross_fitted
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
        class_names: C names, which options name.
    """

    logits: Tensor
    log_prior: Tensor
    labels: Tensor
    folds: Tensor
    counts: Tensor
    background: tuple[int, ...]
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pooled:
    """What was chosen on held-out rows.

    Attributes:
        power: of tau-normalisation, for the final head; None where it is not asked for, or given.
        tau: strength of the post-hoc shift, for the final head.
        layers: calibration and decisions, for the final head.
        calibration: rows to fit these to under other priors; None where nothing is fitted.
        answers: for each row, with shift and layers that the other folds chose.
    """

    power: float | None
    tau: float
    layers: Layers
    calibration: Calibration | None
    answers: Answers


def pooled(run: RunSpec, held: HeldOut) -> Pooled:
    """Power, strength, calibration and decisions for a run from its predictions on held-out rows.

    Raises:
        ValueError: no held-out row belongs to a class that the metric counts, or to one that was trained without it, or
            a wanted recall or precision cannot be reached, in all or without a fold.
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
    logits = _by_fold(held, each, lambda i: _shifted(run, held, own, taus[i]))
    final = _shifted(run, held, held.logits[place], taus[at])
    layers, calibration, answers = _layers(run, held, final, logits)
    return Pooled(powers[place] if is_power_free else None, taus[at], layers, calibration, answers)


def _shifted(run: RunSpec, held: HeldOut, logits: Tensor, tau: float) -> Tensor:
    """Logits [N, C] with tau times their prior taken off, moved to the prior of the deployment where one is stated."""
    shifted = logits - tau * held.log_prior
    target = run.posthoc.deployed(held.class_names, held.counts > 0)
    if target is None:
        return shifted
    lacking = logits.isinf()
    carried = ((1 - tau) * held.log_prior).double().masked_fill(lacking, -torch.inf).log_softmax(1)
    wanted = target.log().expand_as(carried).masked_fill(lacking, -torch.inf).log_softmax(1)
    return shifted + (wanted - carried).masked_fill(lacking, 0.0).to(logits.dtype)


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


def _layers(run: RunSpec, held: HeldOut, final: Tensor, logits: Tensor) -> tuple[Layers, Calibration | None, Answers]:
    """The layers of all rows, the rows they were fitted to, and answers for each row by those of other folds."""
    spec = run.posthoc
    layers = Layers.of(spec, held.class_names, held.background)
    prior = spec.deployed(held.class_names, held.counts > 0)
    answers = cross_fitted(layers, logits, held.labels, held.folds, prior)
    if not spec.reads_rows:
        return layers, None, answers
    rows = Calibration(final, held.labels).known()
    if len(rows.labels) == 0:
        raise ValueError(
            "calibration and decisions are fitted on held-out rows of classes that were trained without them, however: "
            "there are none. Give classes several groups, or set posthoc.calibration.kind, thresholds.kind and "
            "shift.kind to none."
        )
    return layers.fitted_to(rows, prior), rows, answers
