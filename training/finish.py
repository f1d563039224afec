"""From a fitted module to a TrainedHead: priors, post-hoc shift and temperature."""

from dataclasses import replace

import torch
from torch import Tensor

from heads.head import Head
from heads.posthoc import NoCalibration, fit_temperature
from heads.trained import Calibration, Priors, TrainedHead
from training.data import Data
from training.events import Chosen, Finished, Reason
from training.facts import Facts
from training.losses.loss import LossSpec
from training.metrics import all_metrics, to_raise
from training.run import RunSpec
from training.setting import Setting

TAUS = tuple(k / 20 for k in range(31))
"""Strengths that the tuned post-hoc adjustment chooses from."""


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
) -> Finished:
    """The end of a run: its head with priors, its post-hoc shift, and its temperature where calibration is asked for.

    Args:
        setting: the run, with its trained head.
        facts: that the classifier was trained by, which are not the first stage's after a second.
        carried: log of the prior [C+] that the trained logits carry.
        reason: why training ended.
        epoch: the epoch that was kept, counted over both stages.
        epochs: the same for each stage of gradient steps.
        power: of tau-normalisation.
        gradient_norm: the solver's certificate.
    """
    run, data = setting.run, setting.data
    head = setting.head.float().cpu().eval()
    plain = _with_shift(setting, head, facts, carried, 0.0)
    tau = (
        tuned_tau(setting, plain, carried, facts)
        if run.posthoc.adjustment.rule == "tuned"
        else run.posthoc.adjustment.tau
    )
    whole = _calibrated(run, _with_shift(setting, head, facts, carried, tau), data)
    chosen = Chosen(epochs, power, tau)
    return Finished(setting.number, whole, reason, epoch, setting.seconds, gradient_norm, chosen=chosen)


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
    return TrainedHead(setting.run.head, head, setting.rows.columns, setting.data.class_names, priors, full_shift)


def tuned_tau(setting: Setting, head: TrainedHead, carried: Tensor, facts: Facts) -> float:
    """The strength of the post-hoc adjustment with the best early_stop.metric of the selection rows, the least of them.

    Raises:
        ValueError: there are no selection rows, or none of a class that the metric counts.
    """
    select, metric = setting.data.select, setting.run.train.early_stop.metric
    logits = head.logits({name: select.columns[name].cpu() for name in head.columns})
    full = torch.zeros(logits.shape[1], dtype=logits.dtype)
    full[facts.present.cpu()] = carried.to(logits.dtype).cpu()
    name = "macro_f1_fg" if metric == "last" else metric
    values = []
    for tau in TAUS:
        log_p = (logits - tau * full).log_softmax(1)
        found = all_metrics(log_p, select.labels.cpu(), setting.rows.counts.cpu(), setting.background)
        values.append(to_raise(found, name))
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


def _calibrated(run: RunSpec, head: TrainedHead, data: Data) -> TrainedHead:
    """The head with a temperature fitted on the calibration rows of trained classes."""
    if isinstance(run.posthoc.calibration, NoCalibration):
        return head
    part = data.calibrate
    labels = part.labels.cpu()
    known = head.priors.present[labels]
    if len(labels) > 0 and not known.any():
        raise ValueError(
            f"a temperature is fitted on rows of trained classes, however: none of the {len(labels)} calibration rows "
            "belongs to one. Change the split, or set posthoc.calibration.kind to none."
        )
    logits = head.logits({name: part.columns[name].cpu() for name in head.columns})[known]
    rows = Calibration(logits, labels[known])
    return replace(head, temperature=fit_temperature(rows.logits, rows.labels), calibration=rows)
