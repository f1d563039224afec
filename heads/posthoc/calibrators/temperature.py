"""Temperature scaling."""

import math
from typing import Literal

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers, checked
from frostbench.heads.spec import Spec


class Temperature(Spec):
    """Divide the logits by one temperature, fitted to the calibration rows by maximum likelihood.

    Guo et al., "On calibration of modern neural networks", ICML 2017, eq. 9. The predicted class does not change.
    """

    kind: Literal["temperature"] = "temperature"

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit the temperature; see `fit_temperature`."""
        return {"temperature": torch.tensor(fit_temperature(logits, labels, weight), dtype=torch.float64)}

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]."""
        return (logits / float(numbers["temperature"])).log_softmax(1)


TEMPERATURE_RANGE = (1 / 20, 20.0)
"""Bounds of the search; rows classified all correctly, or no better than by chance, have no optimum within them."""


def fit_temperature(logits: Tensor, labels: Tensor, weight: Tensor | None = None, spread: float | None = None) -> float:
    """Return the temperature with the lowest weighted negative log-likelihood of logits [N, C] and labels [N].

    With a spread, log T has a normal prior of mean 0 and that standard deviation, which adds (log T / spread)² / 2 to
    the sum over the rows; the result is then the most probable temperature.

    Brent's method is applied to log T. Without a spread, the objective is convex in 1/T, so a minimum is global;
    with one, it may be only local. Columns of -inf (absent classes) are allowed if no label lies in them. T is
    1 if the likelihood does not depend on it, as with one class.

    Raises:
        ValueError: there are no rows, a label has logit -inf, or a logit is NaN or +inf.
    """
    exact, share = checked(logits, labels, weight, "a temperature")
    own = exact.gather(1, labels[:, None]).squeeze(1)

    def loss(log_t: float) -> float:
        scaled = exact / math.exp(log_t)
        return float((share * (scaled.logsumexp(1) - own / math.exp(log_t))).sum())

    strength = 0.0 if spread is None else 0.5 / (spread**2 * len(labels))

    def objective(log_t: float) -> float:
        return loss(log_t) + strength * log_t**2

    low, high = (math.log(t) for t in TEMPERATURE_RANGE)
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return math.exp(float(best.x)) if float(best.fun) < objective(0.0) else 1.0


def at_bound(temperature: float) -> bool:
    """Return whether a temperature lies at a bound of the search, so that its rows have no optimum within it.

    >>> at_bound(0.05), at_bound(1.7), at_bound(19.9999)
    (True, False, True)
    """
    low, high = TEMPERATURE_RANGE
    return temperature < low * 1.001 or temperature > high * 0.999
