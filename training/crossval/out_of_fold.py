"""Choices based on out-of-fold predictions, pooled over the folds of a cross-validation.

Each choice is made twice: from all rows, for the head that is finally fitted to all rows, and for each fold from the
rows of the other folds, for the predictions on that fold. So nothing fitted to a row's label helps to predict it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import CrossFitted, crossed
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import TAUS
from frostbench.training.metrics.classification import Preference, all_metrics, preference
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import metric_of_strengths


@dataclass(frozen=True)
class OutOfFold:
    """Predictions for each row of a table by heads that did not see it.

    Attributes:
        logits: logits [P, N, C] without prior adjustment for P candidate strengths of the second stage, or P = 1; -inf
            for classes without a training row.
        log_prior: log [N, C] of the prior contained in these logits; 0 for classes without a training row.
        labels: class indices [N].
        folds: number [N] of the fold in which each row was held out.
        counts: rows per class [C].
        background: indices of the background classes.
        class_names: names of the C classes.
    """

    logits: Tensor
    log_prior: Tensor
    labels: Tensor
    folds: Tensor
    counts: Tensor
    background: tuple[int, ...]
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutOfFoldChoices:
    """Choices made on held-out rows.

    Attributes:
        power: tuned strength of the second stage for the final head, or None if it is not tuned.
        adjustment_strength: strength of the post-hoc prior adjustment for the final head.
        layers: calibration and decisions of the final head.
        calibration: rows on which the layers are refitted for another class prior; None if nothing is fitted.
        predictions: predictions for each row, with the choices of the other folds.
    """

    power: float | None
    adjustment_strength: float
    layers: Layers
    calibration: Calibration | None
    predictions: CrossFitted


def choose_out_of_fold(run: RunSpec, rows: OutOfFold) -> OutOfFoldChoices:
    """Choose the strengths, calibration and decisions of a run from its out-of-fold predictions.

    Raises:
        ValueError: no row belongs to a class that the metric counts, or none to a class that has rows in other folds;
            or a requested recall or precision cannot be reached on all rows, or on those outside a fold.
    """
    metric = metric_of_strengths(run.train.early_stop.metric)
    powers = run.second.strengths if run.second.is_tuned else (0.0,)
    strengths = TAUS if run.posthoc.adjustment.rule == "tuned" else (run.posthoc.adjustment.tau,)

    def best_on(chosen: Tensor) -> tuple[int, float]:
        power = _best([logits[chosen] for logits in rows.logits[: len(powers)]], rows, chosen, metric)
        logits, prior = rows.logits[power][chosen], rows.log_prior[chosen]
        return power, strengths[_best([logits - strength * prior for strength in strengths], rows, chosen, metric)]

    def without(fold: int) -> Tensor:
        power, strength = best_on(rows.folds != fold)
        return _adjusted(run, rows, rows.logits[power], strength)

    power, strength = best_on(torch.ones_like(rows.folds, dtype=torch.bool))
    final = _adjusted(run, rows, rows.logits[power], strength)
    layers, calibration, predictions = _layers(run, rows, final, without)
    tuned_power = powers[power] if run.second.is_tuned else None
    return OutOfFoldChoices(tuned_power, strength, layers, calibration, predictions)


def _best(candidates: Sequence[Tensor], rows: OutOfFold, chosen: Tensor, metric: str) -> int:
    """Return the index of the best of several logits [M, C] of the chosen rows [N]; ties go to the lowest NLL."""
    labels = rows.labels[chosen]

    def value(index: int) -> Preference:
        log_p = candidates[index].log_softmax(1)
        return preference(all_metrics(log_p, labels, rows.counts, rows.background), metric)

    return 0 if len(candidates) == 1 else max(range(len(candidates)), key=value)


def _adjusted(run: RunSpec, rows: OutOfFold, logits: Tensor, strength: float) -> Tensor:
    """Subtract strength times the log prior from logits [N, C], and shift these to the deployment prior if given."""
    adjusted = logits - strength * rows.log_prior
    target = run.posthoc.deployed(rows.class_names, rows.counts > 0)
    if target is None:
        return adjusted
    absent = logits.isinf()
    carried = ((1 - strength) * rows.log_prior).double().masked_fill(absent, -torch.inf).log_softmax(1)
    wanted = target.log().expand_as(carried).masked_fill(absent, -torch.inf).log_softmax(1)
    return adjusted + (wanted - carried).masked_fill(absent, 0.0).to(logits.dtype)


def _layers(
    run: RunSpec, rows: OutOfFold, final: Tensor, without: Callable[[int], Tensor]
) -> tuple[Layers, Calibration | None, CrossFitted]:
    """Return layers fitted to all rows, the rows they were fitted to, and cross-fitted predictions for each row.

    `final` holds logits [N, C] adjusted by the choices on all rows; `without` returns logits [N, C] adjusted by the
    choices on the rows outside a fold.
    """
    spec = run.posthoc
    layers = Layers.of(spec.model_copy(update={"rows": "calibrate"}), rows.class_names, rows.background)
    prior = spec.deployed(rows.class_names, rows.counts > 0)
    predictions = crossed(layers, without, rows.labels, rows.folds, prior)
    if not spec.reads_rows:
        return layers, None, predictions
    known = Calibration(final, rows.labels).known()
    if len(known.labels) == 0 and not spec.needs_rows:
        return layers, None, predictions
    if len(known.labels) == 0:
        raise ValueError(
            "Calibration and decisions need held-out rows whose class also has training rows, but no class has both. "
            "Give classes at least two groups, or set posthoc.calibration.kind, thresholds.kind and shift.kind to none."
        )
    return layers.fitted_to(known, prior), known, predictions
