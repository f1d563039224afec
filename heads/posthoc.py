"""Post-hoc layers: logits to logits, fitted after training and exported with the head."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import Spec


class NoCalibration(Spec):
    """Leave the probabilities as the logits give them."""

    kind: Literal["none"] = "none"


class Temperature(Spec):
    """Divide the logits by one temperature, fitted to the likelihood of the calibration rows.

    Guo et al., "On calibration of modern neural networks", ICML 2017, eq. 9. The predicted class stays.
    """

    kind: Literal["temperature"] = "temperature"


CalibrationSpec = Annotated[NoCalibration | Temperature, Field(discriminator="kind")]


class PriorAdjustment(Spec):
    """Subtract tau * log(prior) from the logits of a trained head.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, eq. 9. The prior is the one that the
    trained logits still carry.
    """

    kind: Literal["prior_adjustment"] = "prior_adjustment"
    rule: Literal["fixed", "tuned"] = "fixed"
    """Whether tau is the number given, or found among 0, 0.05 .. 1.5 by train.early_stop.metric on selection rows."""
    tau: float = Field(default=0.0, ge=0, le=3)
    """Strength where the rule is fixed; 0 leaves the logits alone, 1 is consistent for the balanced error."""


class PosthocSpec(Spec):
    """What is done to the logits after training; fitted on the calibration rows."""

    adjustment: PriorAdjustment = PriorAdjustment()
    """Shift of the class prior."""
    calibration: CalibrationSpec = NoCalibration()
    """How probabilities are calibrated, after the shift."""


TEMPERATURE_RANGE = (1 / 20, 20.0)
"""Bounds of the search; rows that are all right or all wrong have no optimum within them."""


def fit_temperature(logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> float:
    """The temperature with the lowest weighted negative log-likelihood of logits [N, C] and labels [N].

    Brent's method on log T; the objective is convex in 1/T, so its minimum is the only one. Columns of -inf (absent
    classes) are allowed as long as no label lies in them.

    Where the likelihood does not depend on T, as with one class, T is 1.

    Raises:
        ValueError: there are no rows, a label has logit -inf, or a logit is NaN or +inf.
    """
    if logits.isnan().any() or logits.isposinf().any():
        raise ValueError(
            "a temperature is fitted on finite logits, however: NaN or infinity came. Did training diverge?"
        )
    if len(labels) == 0:
        raise ValueError(
            "a temperature is fitted on calibration rows, however: there are none. "
            "Give the split a calibrate share above 0, or set posthoc.calibration.kind to none."
        )
    exact = logits.double()
    own = exact.gather(1, labels[:, None]).squeeze(1)
    if own.isinf().any():
        raise ValueError("every calibration label needs a class that was trained, however: one has logit -inf.")
    share = torch.ones_like(own) if weight is None else weight.double()

    def loss(log_t: float) -> float:
        scaled = exact / math.exp(log_t)
        return float((share * (scaled.logsumexp(1) - own / math.exp(log_t))).sum() / share.sum())

    low, high = (math.log(t) for t in TEMPERATURE_RANGE)
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return math.exp(float(best.x)) if float(best.fun) < loss(0.0) else 1.0


def at_bound(temperature: float) -> bool:
    """Whether a fitted temperature lies at a bound of the search, which means that its rows have no optimum.

    >>> at_bound(0.05), at_bound(1.7), at_bound(19.9999)
    (True, False, True)
    """
    low, high = TEMPERATURE_RANGE
    return temperature < low * 1.001 or temperature > high * 0.999
