"""Turns a fitted module into a TrainedHead with priors, prior adjustment, calibration and decisions."""

from dataclasses import replace

import torch
from torch import Tensor

from frostbench.heads.head import Head
from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.crossfit import CrossFitted, concatenated, cross_fitted
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import TAUS
from frostbench.heads.trained import Calibration, Priors, TrainedHead
from frostbench.training.checks.posthoc import fitted_to, posthoc_parts, select_folds
from frostbench.training.engine.events import Choices, Failed, Finished, Reason
from frostbench.training.engine.run_context import RunContext
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.losses.loss import LossSpec
from frostbench.training.metrics.classification import Preference, all_metrics, preference
from frostbench.training.spec.stage import metric_of_strengths


def finished(
    context: RunContext,
    statistics: ClassStatistics,
    carried: Tensor,
    reason: Reason,
    epoch: int,
    epochs: tuple[int, ...] = (),
    *,
    power: float | None = None,
    gradient_norm: float | None = None,
) -> Finished | Failed:
    """Return the end of a run: its head with priors, prior adjustment, and any configured calibration and decisions.

    The run fails if these cannot be fitted, for instance because a requested precision is out of reach.

    Args:
        context: the run, with its trained head.
        statistics: class statistics that the classifier was trained with; a second stage may have its own.
        carried: log of the prior [C+] contained in the trained logits; C+ counts the classes with training rows.
        reason: why training ended.
        epoch: the kept epoch, counted over both stages.
        epochs: the kept epoch of each stage of gradient steps.
        power: strength of the second stage, if it has one.
        gradient_norm: gradient norm that the solver reached.
    """
    head = context.head.float().cpu().eval()
    strength = _adjustment_strength(context, head, statistics, carried)
    try:
        fitted, held_out = _with_layers(context, _with_adjustment(context, head, statistics, carried, strength))
    except ValueError as error:
        return Failed(context.number, str(error))
    is_shared = isinstance(context.run.posthoc.calibration, AutoTemperature) and held_out is not None
    chosen = Choices(epochs, power, strength, fitted.temperature if is_shared else None)
    return Finished(
        context.number, fitted, reason, epoch, context.seconds, gradient_norm, chosen=chosen, held_out=held_out
    )


def _with_adjustment(
    context: RunContext, head: Head, statistics: ClassStatistics, carried: Tensor, strength: float
) -> TrainedHead:
    """Return the head with strength times `carried`, the log prior [C+] in its logits, subtracted from these."""
    shift = strength * carried
    priors = Priors(
        counts=context.rows.counts.cpu(),
        raw=_over_all_classes(statistics.log_prior_raw, statistics),
        effective=_over_all_classes(statistics.log_prior_effective, statistics),
        implied=_over_all_classes(carried - shift, statistics),
    )
    full_shift = torch.zeros(len(context.data.class_names), dtype=torch.float32)
    full_shift[statistics.present.cpu()] = shift.float().cpu()
    views = {name: how for view_set in context.run.tta for name, how in context.data.averaged[view_set].items()}
    names = context.data.class_names
    return TrainedHead(context.run.head, head, context.rows.columns, names, priors, full_shift, views=views)


def _adjustment_strength(context: RunContext, head: Head, statistics: ClassStatistics, carried: Tensor) -> float:
    """Return the strength of the post-hoc prior adjustment, as given or tuned on the validation rows.

    A tuned strength has the best early_stop.metric; ties go to the lowest NLL, then to the lowest strength.

    Raises:
        ValueError: there are no validation rows, or none of a class that the metric counts.
    """
    adjustment = context.run.posthoc.adjustment
    if adjustment.rule != "tuned":
        return adjustment.tau
    select, name = context.data.select, metric_of_strengths(context.run.train.early_stop.metric)
    plain = _with_adjustment(context, head, statistics, carried, 0.0)
    logits = plain.logits(select.seen_by(plain.reads))
    full = torch.zeros(logits.shape[1], dtype=logits.dtype)
    full[statistics.present.cpu()] = carried.to(logits.dtype).cpu()

    def value(strength: float) -> Preference:
        log_p = (logits - strength * full).log_softmax(1)
        metrics = all_metrics(log_p, select.labels.cpu(), context.rows.counts.cpu(), context.background)
        return preference(metrics, name)

    return max(TAUS, key=value)


def log_prior_in_logits(loss: LossSpec, statistics: ClassStatistics) -> Tensor:
    """Return the log of the prior [C+] that trained logits contain: the loss's prior minus its logit adjustment."""
    adjustment = loss.logit_adjustment
    if adjustment.tau == 0:
        return statistics.log_prior_effective
    return (statistics.log_prior_effective - adjustment.tau * statistics.log_prior(adjustment.prior)).log_softmax(0)


def _over_all_classes(log_prior: Tensor, statistics: ClassStatistics) -> Tensor:
    """Return the prior [C] over all classes from its log over the present ones [C+]."""
    prior = torch.zeros(len(statistics.counts), dtype=torch.float64)
    prior[statistics.present.cpu()] = log_prior.softmax(0).cpu()
    return prior


def _with_layers(context: RunContext, head: TrainedHead) -> tuple[TrainedHead, CrossFitted | None]:
    """Return the head for its deployment prior, with post-hoc layers fitted to rows of trained classes.

    If the layers are fitted to validation rows, cross-fitted predictions for these rows are returned as well.
    """
    spec = context.run.posthoc
    prior = spec.deployed(head.class_names, head.priors.present)
    moved = replace(head.under(prior), layers=Layers.of(spec, head.class_names, tuple(context.background)))
    if not spec.reads_rows:
        return moved, None
    data, name = context.data, fitted_to(context.run, context.data)
    parts = [part for part in posthoc_parts(name, data) if len(part.labels) > 0]
    if not parts:
        return moved, None
    moved = replace(moved, layers=replace(moved.layers, spec=spec.model_copy(update={"rows": name})))
    rows = [Calibration(moved.logits(part.seen_by(head.reads)), part.labels.cpu()) for part in parts]
    known = concatenated(rows).known()
    if len(known.labels) == 0 and not spec.needs_rows:
        return moved, None
    fitted = moved.fitted_to(known, prior)
    if parts[-1] is not data.select:
        return fitted, None
    also = rows[0] if len(rows) > 1 else None
    return fitted, cross_fitted(moved.layers, rows[-1].logits, rows[-1].labels, select_folds(data), prior, also)
