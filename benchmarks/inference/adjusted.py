"""Probabilities of a head at another temperature or class prior, from logits that were computed once."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.trained import TrainedHead


def members_of(head: Predictive) -> tuple[TrainedHead, ...]:
    """Return the heads whose probabilities are averaged: the members of an ensemble, or the head itself."""
    return head.members if isinstance(head, Ensemble) else (head,)


def logits_of(head: Predictive, vectors: Mapping[str, Tensor]) -> Tensor:
    """Return the logits [M, N, C] of each of M members for vectors [N, D]; -inf for classes without training rows."""
    return torch.stack([member.logits(vectors) for member in members_of(head)])


def log_probabilities(head: Predictive, logits: Tensor, temperature: float = 1.0, prior: float = 0.0) -> Tensor:
    """Return calibrated log-probabilities [N, C] at another temperature and class prior.

    Args:
        head: the head or ensemble.
        logits: [M, N, C], see `logits_of`.
        temperature: extra temperature; 1 has no effect.
        prior: 0 for the head's own prior, 1 for the uniform prior; between, their normalised weighted geometric mean.

    Returns:
        For temperature 1 and prior 0, bit for bit `head.log_probabilities`; for 1 and 1, that of the uniform prior.
    """
    members, uniform = members_of(head), head.uniform_prior()
    parts = [_of_member(one, own, uniform, prior) for one, own in zip(members, logits, strict=True)]
    log_p = parts[0] if not isinstance(head, Ensemble) else _log_mean([part.double() for part in parts])
    return log_p if temperature == 1 else (log_p.double() / temperature).log_softmax(1)


def decisions(head: Predictive, logits: Tensor, prior: float = 0.0) -> Tensor:
    """Return the classes [N] that the head chooses at a class prior, after its thresholds and shifts, if any.

    A temperature does not change them.

    Args:
        head: the head or ensemble.
        logits: [M, N, C], see `logits_of`.
        prior: as in `log_probabilities`.
    """
    log_p = log_probabilities(head, logits, prior=prior)
    return (head if prior == 0 else _under(head, prior)).decide(log_p)


def abstentions(head: Predictive, logits: Tensor, prior: float = 0.0) -> Tensor:
    """Return where the head abstains at a class prior, bool [N]; arguments as in `decisions`."""
    log_p = log_probabilities(head, logits, prior=prior)
    return (head if prior == 0 else _under(head, prior)).unsure(log_p, decisions(head, logits, prior))


def _under(head: Predictive, prior: float) -> Predictive:
    """Return the head moved towards the uniform prior."""
    if isinstance(head, Ensemble):
        return Ensemble(tuple(_moved(member, head.uniform_prior(), prior) for member in head.members), head.facts)
    return _moved(head, head.uniform_prior(), prior)


def _moved(member: TrainedHead, uniform: Tensor, prior: float) -> TrainedHead:
    target = torch.where(member.priors.implied > 0, member.priors.implied * _shift(member, uniform, prior).exp(), 0.0)
    return member.under(target / target.sum())


def _shift(member: TrainedHead, uniform: Tensor, prior: float) -> Tensor:
    """Return what is added to logits [C] to move a member's prior towards the uniform one."""
    implied = member.priors.implied
    return torch.where(implied > 0, prior * (uniform.log() - implied.log()), 0.0)


def _of_member(member: TrainedHead, logits: Tensor, uniform: Tensor, prior: float) -> Tensor:
    if prior == 0:
        return member.layers.log_probabilities(logits)
    moved = _moved(member, uniform, prior)
    return moved.layers.log_probabilities(logits.double() + _shift(member, uniform, prior))


def _log_mean(log_p: list[Tensor]) -> Tensor:
    return torch.stack(log_p).logsumexp(0) - math.log(len(log_p))
