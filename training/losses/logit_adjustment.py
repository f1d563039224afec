"""Logit adjustment in training."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from heads.spec import SWEPT, Spec


class LogitAdjustment(Spec):
    """Add tau * log(prior) to the training logits, so that the plain logits come out balanced.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, eq. 10; tau 1 is the Balanced Softmax of
    Ren et al., NeurIPS 2020. Prediction never sees the offset. In a head with a free bias this has the same
    optimum as the post-hoc form.
    """

    kind: Literal["logit_adjustment"] = "logit_adjustment"
    tau: float = Field(default=0.0, ge=0, le=3, json_schema_extra=SWEPT)
    """Strength; 0 leaves the logits alone, 1 is consistent for the balanced error."""
    prior: Literal["effective", "raw"] = "effective"
    """Prior that the loss sees after class weights, or the raw class shares, which corrects twice beside weights."""

    def __call__(self, logits: Tensor, log_prior: Tensor) -> Tensor:
        """Logits [N, C] shifted by tau * log_prior [C]."""
        if not isinstance(self.tau, Tensor) and self.tau == 0:
            return logits
        return logits + self.tau * log_prior
