"""Choices made on predictions for held-out rows, pooled over the folds of a cross-validation.

Each is made twice: from all rows, for the head that is fitted to all rows in the end, and for each fold from the rows
of the other folds, for the predictions on that fold. So nothing that is fitted to a row's label helps to predict it.
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
    """What heads that did not see a row say of it, for each row of a table.

    Attributes:
        logits: [P, N, C] without any post-hoc shift, for P strengths of the second stage, or one; -inf for classes
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
class OutOfFoldChoice:
    """What was chosen on held-out rows.

    Attributes:
        power: strength of the second stage, for the final head; None where it has none, or one that is given.
        tau: strength of the post-hoc shift, for the final head.
        layers: calibration and decisions, for the final head.
        calibration: rows to fit these to under other priors; None where nothing is fitted.
        answers: for each row, with shift and layers that the other folds chose.
    """

    power: float | None
    tau: float
    layers: Layers
    calibration: Calibration | None
    answers: CrossFitted


def choose_out_of_fold(run: RunSpec, held: OutOfFold) -> OutOfFoldChoice:
    """Power, strength, calibration and decisions for a run from its predictions on held-out rows.

    Raises:
        ValueError: no held-out row belongs to a class that the metric counts, or to one that was trained without it, or
            a wanted recall or precision cannot be reached, in all or without a fold.
    """
    metric = metric_of_strengths(run.train.early_stop.metric)
    powers = run.second.strengths if run.second.is_tuned else (0.0,)
    taus = TAUS if run.posthoc.adjustment.rule == "tuned" else (run.posthoc.adjustment.tau,)

    def chosen_on(rows: Tensor) -> tuple[int, float]:
        place = _best([each[rows] for each in held.logits[: len(powers)]], held, rows, metric)
        seen, prior = held.logits[place][rows], held.log_prior[rows]
        return place, taus[_best([seen - tau * prior for tau in taus], held, rows, metric)]

    def without(fold: int) -> Tensor:
        place, tau = chosen_on(held.folds != fold)
        return _shifted(run, held, held.logits[place], tau)

    place, tau = chosen_on(torch.ones_like(held.folds, dtype=torch.bool))
    final = _shifted(run, held, held.logits[place], tau)
    layers, calibration, answers = _layers(run, held, final, without)
    return OutOfFoldChoice(powers[place] if run.second.is_tuned else None, tau, layers, calibration, answers)


def _best(candidates: Sequence[Tensor], held: OutOfFold, rows: Tensor, metric: str) -> int:
    """The place of the best of some logits [M, C] of the chosen rows [N]; of equals that with the lowest NLL."""
    labels = held.labels[rows]

    def value(place: int) -> Preference:
        log_p = candidates[place].log_softmax(1)
        return preference(all_metrics(log_p, labels, held.counts, held.background), metric)

    return 0 if len(candidates) == 1 else max(range(len(candidates)), key=value)


def _shifted(run: RunSpec, held: OutOfFold, logits: Tensor, tau: float) -> Tensor:
    """Logits [N, C] with tau times their prior taken off, moved to the prior of the deployment where one is stated."""
    shifted = logits - tau * held.log_prior
    target = run.posthoc.deployed(held.class_names, held.counts > 0)
    if target is None:
        return shifted
    lacking = logits.isinf()
    carried = ((1 - tau) * held.log_prior).double().masked_fill(lacking, -torch.inf).log_softmax(1)
    wanted = target.log().expand_as(carried).masked_fill(lacking, -torch.inf).log_softmax(1)
    return shifted + (wanted - carried).masked_fill(lacking, 0.0).to(logits.dtype)


def _layers(
    run: RunSpec, held: OutOfFold, final: Tensor, without: Callable[[int], Tensor]
) -> tuple[Layers, Calibration | None, CrossFitted]:
    """The layers of all rows, the rows they were fitted to, and answers for each row by those of other folds.

    Logits [N, C] are adjusted by the choice of all rows in final, and of the rows without a fold in what without gives.
    """
    spec = run.posthoc
    layers = Layers.of(spec.model_copy(update={"rows": "calibrate"}), held.class_names, held.background)
    prior = spec.deployed(held.class_names, held.counts > 0)
    answers = crossed(layers, without, held.labels, held.folds, prior)
    if not spec.reads_rows:
        return layers, None, answers
    rows = Calibration(final, held.labels).known()
    if len(rows.labels) == 0 and not spec.needs_rows:
        return layers, None, answers
    if len(rows.labels) == 0:
        raise ValueError(
            "calibration and decisions are fitted on held-out rows of classes that were trained without them, however: "
            "there are none. Give classes several groups, or set posthoc.calibration.kind, thresholds.kind and "
            "shift.kind to none."
        )
    return layers.fitted_to(rows, prior), rows, answers
