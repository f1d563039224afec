"""Calibration rows, and checks shared by all calibrators."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Numbers = Mapping[str, Tensor]
"""Fitted parameters by name; a bundle stores these tensors unchanged."""


@dataclass(frozen=True)
class Calibration:
    """Rows for refitting calibration and decisions to any class prior: adjusted logits [M, C] and labels [M]."""

    logits: Tensor
    labels: Tensor

    def known(self) -> "Calibration":
        """Return the rows whose label belongs to a trained class, so that its logit is finite."""
        kept = ~self.logits.gather(1, self.labels[:, None]).squeeze(1).isneginf()
        return Calibration(self.logits[kept], self.labels[kept])

    def weights(self, prior: Tensor | None) -> Tensor:
        """Return weights [M] float64 with which the rows represent a class prior [C]; ones if prior is None."""
        if prior is None:
            return torch.ones(len(self.labels), dtype=torch.float64)
        share = torch.bincount(self.labels, minlength=len(prior)).double()
        return (prior.double() / share)[self.labels]


def checked(logits: Tensor, labels: Tensor, weight: Tensor | None, what: str) -> tuple[Tensor, Tensor]:
    """Check rows for a fit, and return their logits [N, C] and weights [N] with sum 1, in float64.

    Raises:
        ValueError: there are no rows, a label has logit -inf, or a logit is NaN or +inf.
    """
    if logits.isnan().any() or logits.isposinf().any():
        raise ValueError(
            f"The logits for {what} must be finite, got NaN or infinity. If training diverged, lower the learning rate."
        )
    if len(labels) == 0:
        raise ValueError(
            f"Calibration rows are required for {what}, got none. Give the split a calibrate share above 0, or set "
            "posthoc.calibration.kind, posthoc.thresholds.kind and posthoc.shift.kind to none."
        )
    exact = logits.double()
    if exact.gather(1, labels[:, None]).isinf().any():
        raise ValueError(
            "Every calibration label must belong to a trained class, but one has logit -inf. Leave out such rows."
        )
    share = torch.ones(len(labels), dtype=torch.float64) if weight is None else weight.double()
    return exact, share / share.sum()


def with_rows(labels: Tensor, share: Tensor, classes: int) -> Tensor:
    """Return which classes have rows with a weight above 0, as bool [C]."""
    return torch.bincount(labels, share, minlength=classes) > 0
