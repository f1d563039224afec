"""The default calibration: a temperature if there are enough rows to fit it."""

from typing import Literal

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers
from frostbench.heads.posthoc.calibrators.temperature import fit_temperature
from frostbench.heads.spec import Spec

LEAST_ROWS = 20
"""Minimum number of rows for a temperature."""
SPREAD = 1.0
"""Standard deviation of the log temperature under its normal prior of mean 0."""


class AutoTemperature(Spec):
    """Divide the logits by a temperature fitted to at least 20 rows; with fewer rows, keep the logits unchanged.

    This is temperature scaling (Guo et al., "On calibration of modern neural networks", ICML 2017, eq. 9) with a
    standard normal prior on the log temperature, so that a few rows that are all classified correctly do not drive it
    to a bound. The predicted class does not change.
    """

    kind: Literal["auto"] = "auto"

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit the temperature; with fewer than `LEAST_ROWS` rows, return nothing."""
        if len(labels) < LEAST_ROWS:
            return {}
        return {"temperature": torch.tensor(fit_temperature(logits, labels, weight, SPREAD), dtype=torch.float64)}

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]."""
        return (logits / float(numbers["temperature"]) if "temperature" in numbers else logits).log_softmax(1)
