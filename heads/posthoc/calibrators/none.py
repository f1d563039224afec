"""No calibration."""

from typing import Literal

from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Numbers
from frostbench.heads.spec import Spec


class NoCalibration(Spec):
    """Use the probabilities of the logits unchanged."""

    kind: Literal["none"] = "none"

    def fit(self, logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Numbers:
        """Fit nothing."""
        return {}

    def apply(self, logits: Tensor, numbers: Numbers) -> Tensor:
        """Return log-probabilities [N, C]."""
        return logits.log_softmax(1)
