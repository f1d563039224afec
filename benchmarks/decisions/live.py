"""Applies a decision to stored logits, with numpy alone: what the exported head would say of the same images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.head_numbers import HeadNumbers
from frostbench.benchmarks.decisions.stored_logits import StoredLogits
from frostbench.heads.posthoc.decisions.rule import Bools, Floats, Ints

LEAST_ROWS, SPREAD, RANGE = 20, 1.0, (1 / 20, 20.0)
"""Fewest rows and prior of `auto`, and the range of temperatures, as in frostbench.heads.posthoc.calibrators."""
MOST_KEPT = 256
"""Number of refitted temperatures that are kept, so that a slider that goes back does not wait."""


@dataclass(frozen=True)
class Answers:
    """What is said of N images.

    Attributes:
        predicted: [N] class index that is or would be said.
        confidence: [N] its probability.
        unsure: [N] whether there is no answer.
        log_own: [N] log-probability of the label.
    """

    predicted: Ints
    confidence: npt.NDArray[np.float64]
    unsure: Bools
    log_own: npt.NDArray[np.float64]


def answers(stored: StoredLogits, role: str, labels: Ints, head: HeadNumbers, decision: Decision) -> Answers:
    """Decide the images of a role.

    Args:
        stored: logits of the run.
        role: `select` or `test`.
        labels: [N] class indices, in the order of the logits.
        head: numbers of the head that gave the logits.
        decision: temperature, prior, cut-offs, costs and abstention.

    Raises:
        ValueError: the decision names unknown classes, or changes what this head's layers do not allow.
    """
    if closed := why_not(head, decision):
        raise ValueError(closed)
    log_p = log_probabilities(stored.rows[role], stored.holds == "log_p", head, decision)
    offsets = decision.offsets(head.class_names)
    bias = head.bias if offsets is None else offsets if head.bias is None else head.bias + offsets
    predicted = decision.rule.choose(log_p, bias, head.class_names)
    rows = np.arange(len(labels))
    confidence = np.exp(log_p[rows, predicted].astype(np.float64))
    return Answers(predicted, confidence, decision.rule.abstains(confidence), log_p[rows, labels].astype(np.float64))


def why_not(head: HeadNumbers, decision: Decision) -> str:
    """Return why a decision cannot be applied to a head, or "" if it can.

    Raises:
        ValueError: the decision names unknown classes, or leaves no class that the head can predict a share.
    """
    decision.check_names(head.class_names)
    decision.target(head.prior, head.class_names)
    if decision.has_prior and head.why_no_prior:
        return f"The class prior of this head cannot be changed here. {head.why_no_prior}"
    if decision.cutoffs and head.why_no_cutoffs:
        return f"This head takes no cut-offs. {head.why_no_cutoffs}"
    return ""


def log_probabilities(logits: Floats, is_log_p: bool, head: HeadNumbers, decision: Decision) -> Floats:
    """Return log-probabilities [N, C] of logits [N, C] after prior, calibration and the decision's temperature."""
    divisor = decision.temperature
    if not is_log_p:
        target = decision.target(head.prior, head.class_names)
        moved = None if target is None else _offset(head, target)
        divisor *= head.temperature if target is None else _refitted(head, tuple(target.tolist()))
        logits = logits if moved is None else logits + moved
    scaled = logits / np.asarray(divisor, logits.dtype) if divisor != 1 else logits
    return _log_softmax(scaled)


def _offset(head: HeadNumbers, target: npt.NDArray[np.float64]) -> Floats:
    """Return the offset of the logits [C] float32 from the head's prior to another one."""
    known = head.prior > 0
    with np.errstate(divide="ignore"):
        ratio = np.log(target, where=known, out=np.zeros_like(target)) - np.log(np.where(known, head.prior, 1.0))
    return np.where(known, ratio, 0.0).astype(np.float32)


def _log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


@lru_cache(maxsize=MOST_KEPT)
def _refitted(head: HeadNumbers, target: Sequence[float]) -> float:
    """Return the temperature for another class prior, as `TrainedHead.under` refits it."""
    if head.logits is None or head.labels is None:
        return head.temperature
    prior = np.array(target)
    logits = (head.logits + _offset(head, prior)).astype(np.float64)
    kept = ~np.isneginf(logits[np.arange(len(head.labels)), head.labels])
    logits, labels = logits[kept], head.labels[kept]
    if len(labels) == 0:
        return head.temperature
    if head.calibration == "none" or (head.calibration == "auto" and len(labels) < LEAST_ROWS):
        return 1.0
    weight = (prior / np.maximum(np.bincount(labels, minlength=len(prior)), 1))[labels]
    return fit_temperature(logits, labels, weight, SPREAD if head.calibration == "auto" else None)


def fit_temperature(logits: Floats, labels: Ints, weight: Floats, spread: float | None) -> float:
    """Return the temperature that `frostbench.heads.posthoc.calibrators.temperature.fit_temperature` finds."""
    from scipy.optimize import minimize_scalar

    share = weight / weight.sum()
    lead = logits - logits.max(1, keepdims=True)
    own = lead[np.arange(len(labels)), labels]
    strength = 0.0 if spread is None else 0.5 / (spread**2 * len(labels))

    def objective(log_t: float) -> float:
        scaled = np.log(np.exp(lead / math.exp(log_t)).sum(1))
        return float((share * (scaled - own / math.exp(log_t))).sum()) + strength * log_t**2

    low, high = (math.log(t) for t in RANGE)
    best = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return math.exp(float(best.x)) if float(best.fun) < objective(0.0) else 1.0


NEUTRAL = Decision()
"""The decision that leaves a head as it is."""
