"""From a fitted module to a TrainedHead: priors, post-hoc shift and temperature."""

from dataclasses import replace

import torch
from torch import Tensor

from heads.head import Head
from heads.posthoc import NoCalibration, fit_temperature
from heads.trained import Calibration, Priors, TrainedHead
from training.data import Data
from training.facts import Facts
from training.losses.loss import LossSpec
from training.run import RunSpec


def trained(
    run: RunSpec, head: Head, columns: tuple[str, ...], data: Data, loss: LossSpec, facts: Facts
) -> TrainedHead:
    """The head with its priors, its post-hoc shift, and its temperature where calibration is asked for.

    loss and facts are those that the classifier was trained by, which are not the first stage's after a second.
    """
    remaining = _log_prior_in_logits(loss, facts)
    shift = run.posthoc.adjustment.tau * remaining
    priors = Priors(
        counts=facts.counts.cpu(),
        raw=_spread(facts.log_prior_raw, facts),
        effective=_spread(facts.log_prior_effective, facts),
        implied=_spread(remaining - shift, facts),
    )
    full_shift = torch.zeros(len(data.class_names), dtype=torch.float32)
    full_shift[facts.present.cpu()] = shift.float().cpu()
    plain = TrainedHead(run.head, head.cpu().eval(), columns, data.class_names, priors, full_shift)
    return _calibrated(run, plain, data)


def _log_prior_in_logits(loss: LossSpec, facts: Facts) -> Tensor:
    """Log of the prior [C+] that the trained logits carry: what the loss saw, less what training added for it."""
    adjustment = loss.logit_adjustment
    added = facts.log_prior_raw if adjustment.prior == "raw" else facts.log_prior_effective
    return (facts.log_prior_effective - adjustment.tau * added).log_softmax(0)


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
