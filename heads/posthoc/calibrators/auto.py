"""A temperature where there are rows to fit it to, without being asked for."""

from typing import Literal

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers
from frostbench.heads.posthoc.calibrators.temperature import fit_temperature
from frostbench.heads.spec import Spec

LEAST_ROWS = 20
"""Rows below which no temperature is fitted."""
SPREAD = 1.0
"""Standard deviation of the log-normal prior of the temperature, whose median is 1."""


class AutoTemperature(Spec):
    """Divide the logits by one temperature where there are at least 20 rows to fit it to; else leave them alone.

    Temperature scaling (Guo et al., "On calibration of modern neural networks", ICML 2017, eq. 9) under a prior: the
    log of the temperature counts as a standard normal number, so that a few rows which happen to be all right do not
    drive it to a bound. The predicted class stays.
    """

    kind: Literal["auto"] = "auto"

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """The temperature; nothing where there are fewer than `LEAST_ROWS` rows."""
        if len(labels) < LEAST_ROWS:
            return {}
        return {"temperature": torch.tensor(fit_temperature(logits, labels, weight, SPREAD), dtype=torch.float64)}

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Log-probabilities [N, C]."""
        return (logits / float(numbers["temperature"]) if "temperature" in numbers else logits).log_softmax(1)
