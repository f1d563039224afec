"""From a fitted module to a TrainedHead: priors, post-hoc shift, calibration and decisions."""

from dataclasses import replace

import torch
from torch import Tensor

from frostbench.heads.head import Head
from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.crossfit import Answers, cross_fitted, together
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import TAUS
from frostbench.heads.trained import Calibration, Priors, TrainedHead
from frostbench.training.checks.posthoc import fitted_to, posthoc_parts, select_folds
from frostbench.training.engine.events import Chosen, Failed, Finished, Reason
from frostbench.training.engine.run_context import Setting
from frostbench.training.losses.class_statistics import Facts
from frostbench.training.losses.loss import LossSpec
from frostbench.training.metrics.classification import all_metrics, preference
from frostbench.training.spec.stage import metric_of_strengths


def finished(
    setting: Setting,
    facts: Facts,
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
        setting: the run, with its trained head.
        facts: that the classifier was trained by, which are not the first stage's after a second.
        carried: log of the prior [C+] that the trained logits carry.
        reason: why training ended.
        epoch: the epoch that was kept, counted over both stages.
        epochs: the same for each stage of gradient steps.
        power: strength of the second stage, where it has one.
        gradient_norm: the solver's certificate.
    """
    run = setting.run
    head = setting.head.float().cpu().eval()
    plain = _with_shift(setting, head, facts, carried, 0.0)
    tau = (
        tuned_tau(setting, plain, carried, facts)
        if run.posthoc.adjustment.rule == "tuned"
        else run.posthoc.adjustment.tau
    )
    try:
        whole, held_out = _with_layers(setting, _with_shift(setting, head, facts, carried, tau))
    except ValueError as error:
        return Failed(setting.number, str(error))
    is_shared = isinstance(run.posthoc.calibration, AutoTemperature) and held_out is not None
    chosen = Chosen(epochs, power, tau, whole.temperature if is_shared else None)
    return Finished(
        setting.number, whole, reason, epoch, setting.seconds, gradient_norm, chosen=chosen, held_out=held_out
    )


def _with_shift(setting: Setting, head: Head, facts: Facts, carried: Tensor, tau: float) -> TrainedHead:
    """The head with tau times the prior in its logits [C+] taken off."""
    shift = tau * carried
    priors = Priors(
        counts=setting.rows.counts.cpu(),
        raw=_spread(facts.log_prior_raw, facts),
        effective=_spread(facts.log_prior_effective, facts),
        implied=_spread(carried - shift, facts),
    )
    full_shift = torch.zeros(len(setting.data.class_names), dtype=torch.float32)
    full_shift[facts.present.cpu()] = shift.float().cpu()
    views = {name: how for one in setting.run.tta for name, how in setting.data.averaged[one].items()}
    names = setting.data.class_names
    return TrainedHead(setting.run.head, head, setting.rows.columns, names, priors, full_shift, views=views)


def tuned_tau(setting: Setting, head: TrainedHead, carried: Tensor, facts: Facts) -> float:
    """The strength of the post-hoc adjustment with the best early_stop.metric of the selection rows.

    Of equals the one with the lowest NLL is taken, and then the least.

    Raises:
        ValueError: there are no selection rows, or none of a class that the metric counts.
    """
    select, metric = setting.data.select, setting.run.train.early_stop.metric
    logits = head.logits(select.seen_by(head.reads))
    full = torch.zeros(logits.shape[1], dtype=logits.dtype)
    full[facts.present.cpu()] = carried.to(logits.dtype).cpu()
    name = metric_of_strengths(metric)
    values = []
    for tau in TAUS:
        log_p = (logits - tau * full).log_softmax(1)
        found = all_metrics(log_p, select.labels.cpu(), setting.rows.counts.cpu(), setting.background)
        values.append(preference(found, name))
    return TAUS[max(range(len(TAUS)), key=values.__getitem__)]


def log_prior_in_logits(loss: LossSpec, facts: Facts) -> Tensor:
    """Log of the prior [C+] that trained logits carry: what the loss saw, less what training added for it."""
    adjustment = loss.logit_adjustment
    if adjustment.tau == 0:
        return facts.log_prior_effective
    return (facts.log_prior_effective - adjustment.tau * facts.log_prior(adjustment.prior)).log_softmax(0)


def _spread(log_prior: Tensor, facts: Facts) -> Tensor:
    """A prior [C] over all classes from its log over the present ones [C+]."""
    prior = torch.zeros(len(facts.counts), dtype=torch.float64)
    prior[facts.present.cpu()] = log_prior.softmax(0).cpu()
    return prior


def _with_layers(setting: Setting, head: TrainedHead) -> tuple[TrainedHead, Answers | None]:
    """The head under the prior it is meant for, with its layers fitted to rows of trained classes.

    Beside it what layers that did not see them say of the selection rows, where it is these that they are fitted to.
    """
    spec = setting.run.posthoc
    prior = spec.deployed(head.class_names, head.priors.present)
    moved = replace(head.under(prior), layers=Layers.of(spec, head.class_names, tuple(setting.background)))
    if not spec.reads_rows:
        return moved, None
    data, name = setting.data, fitted_to(setting.run, setting.data)
    parts = [part for part in posthoc_parts(name, data) if len(part.labels) > 0]
    if not parts:
        return moved, None
    moved = replace(moved, layers=replace(moved.layers, spec=spec.model_copy(update={"rows": name})))
    rows = [Calibration(moved.logits(part.seen_by(head.reads)), part.labels.cpu()) for part in parts]
    known = together(rows).known()
    if len(known.labels) == 0 and not spec.needs_rows:
        return moved, None
    whole = moved.fitted_to(known, prior)
    if parts[-1] is not data.select:
        return whole, None
    also = rows[0] if len(rows) > 1 else None
    return whole, cross_fitted(moved.layers, rows[-1].logits, rows[-1].labels, select_folds(data), prior, also)
