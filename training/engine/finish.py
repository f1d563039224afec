"""From a fitted module to a TrainedHead: priors, post-hoc shift, calibration and decisions."""

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
from frostbench.training.engine.events import Chosen, Failed, Finished, Reason
from frostbench.training.engine.run_context import RunContext
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.losses.loss import LossSpec
from frostbench.training.metrics.classification import all_metrics, preference
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
    """The end of a run: its head with priors, its post-hoc shift, and calibration and decisions where asked for.

    It has failed where these cannot be fitted, as with a precision that is not to be had.

    Args:
        context: the run, with its trained head.
        statistics: that the classifier was trained by, which are not the first stage's after a second.
        carried: log of the prior [C+] that the trained logits carry.
        reason: why training ended.
        epoch: the epoch that was kept, counted over both stages.
        epochs: the same for each stage of gradient steps.
        power: strength of the second stage, where it has one.
        gradient_norm: the solver's certificate.
    """
    run = context.run
    head = context.head.float().cpu().eval()
    plain = _with_shift(context, head, statistics, carried, 0.0)
    tau = (
        tuned_tau(context, plain, carried, statistics)
        if run.posthoc.adjustment.rule == "tuned"
        else run.posthoc.adjustment.tau
    )
    try:
        whole, held_out = _with_layers(context, _with_shift(context, head, statistics, carried, tau))
    except ValueError as error:
        return Failed(context.number, str(error))
    is_shared = isinstance(run.posthoc.calibration, AutoTemperature) and held_out is not None
    chosen = Chosen(epochs, power, tau, whole.temperature if is_shared else None)
    return Finished(
        context.number, whole, reason, epoch, context.seconds, gradient_norm, chosen=chosen, held_out=held_out
    )


def _with_shift(
    context: RunContext, head: Head, statistics: ClassStatistics, carried: Tensor, tau: float
) -> TrainedHead:
    """The head with tau times the prior in its logits [C+] taken off."""
    shift = tau * carried
    priors = Priors(
        counts=context.rows.counts.cpu(),
        raw=_spread(statistics.log_prior_raw, statistics),
        effective=_spread(statistics.log_prior_effective, statistics),
        implied=_spread(carried - shift, statistics),
    )
    full_shift = torch.zeros(len(context.data.class_names), dtype=torch.float32)
    full_shift[statistics.present.cpu()] = shift.float().cpu()
    views = {name: how for one in context.run.tta for name, how in context.data.averaged[one].items()}
    names = context.data.class_names
    return TrainedHead(context.run.head, head, context.rows.columns, names, priors, full_shift, views=views)


def tuned_tau(context: RunContext, head: TrainedHead, carried: Tensor, statistics: ClassStatistics) -> float:
    """The strength of the post-hoc adjustment with the best early_stop.metric of the selection rows.

    Of equals the one with the lowest NLL is taken, and then the least.

    Raises:
        ValueError: there are no selection rows, or none of a class that the metric counts.
    """
    select, metric = context.data.select, context.run.train.early_stop.metric
    logits = head.logits(select.seen_by(head.reads))
    full = torch.zeros(logits.shape[1], dtype=logits.dtype)
    full[statistics.present.cpu()] = carried.to(logits.dtype).cpu()
    name = metric_of_strengths(metric)
    values = []
    for tau in TAUS:
        log_p = (logits - tau * full).log_softmax(1)
        found = all_metrics(log_p, select.labels.cpu(), context.rows.counts.cpu(), context.background)
        values.append(preference(found, name))
    return TAUS[max(range(len(TAUS)), key=values.__getitem__)]


def log_prior_in_logits(loss: LossSpec, statistics: ClassStatistics) -> Tensor:
    """Log of the prior [C+] that trained logits carry: what the loss saw, less what training added for it."""
    adjustment = loss.logit_adjustment
    if adjustment.tau == 0:
        return statistics.log_prior_effective
    return (statistics.log_prior_effective - adjustment.tau * statistics.log_prior(adjustment.prior)).log_softmax(0)


def _spread(log_prior: Tensor, statistics: ClassStatistics) -> Tensor:
    """A prior [C] over all classes from its log over the present ones [C+]."""
    prior = torch.zeros(len(statistics.counts), dtype=torch.float64)
    prior[statistics.present.cpu()] = log_prior.softmax(0).cpu()
    return prior


def _with_layers(context: RunContext, head: TrainedHead) -> tuple[TrainedHead, CrossFitted | None]:
    """The head under the prior it is meant for, with its layers fitted to rows of trained classes.

    Beside it what layers that did not see them say of the selection rows, where it is these that they are fitted to.
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
    whole = moved.fitted_to(known, prior)
    if parts[-1] is not data.select:
        return whole, None
    also = rows[0] if len(rows) > 1 else None
    return whole, cross_fitted(moved.layers, rows[-1].logits, rows[-1].labels, select_folds(data), prior, also)
