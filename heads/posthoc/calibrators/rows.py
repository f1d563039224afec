"""What calibrators are fitted to, and what all of them ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Numbers = Mapping[str, Tensor]
"""What a fit found, by name; a bundle keeps these tensors as they are."""


@dataclass(frozen=True)
class Calibration:
    """Rows kept to fit calibration and decisions for any class prior: adjusted logits [M, C] and labels [M]."""

    logits: Tensor
    labels: Tensor

    def known(self) -> "Calibration":
        """The rows whose label has a logit, which those of untrained classes lack."""
        kept = ~self.logits.gather(1, self.labels[:, None]).squeeze(1).isneginf()
        return Calibration(self.logits[kept], self.labels[kept])

    def weights(self, prior: Tensor | None) -> Tensor:
        """Weights [M] float64 with which the rows stand for rows of a class prior [C]; 1 where it is None."""
        if prior is None:
            return torch.ones(len(self.labels), dtype=torch.float64)
        share = torch.bincount(self.labels, minlength=len(prior)).double()
        return (prior.double() / share)[self.labels]


def checked(logits: Tensor, labels: Tensor, weight: Tensor | None, what: str) -> tuple[Tensor, Tensor]:
    """Logits [N, C] and shares [N] that sum to 1, in float64, of rows that something can be fitted to.

    Raises:
        ValueError: there are no rows, a label has logit -inf, or a logit is NaN or +inf.
    """
    if logits.isnan().any() or logits.isposinf().any():
        raise ValueError(f"{what} is fitted on finite logits, however: NaN or infinity came. Did training diverge?")
    if len(labels) == 0:
        raise ValueError(
            f"{what} is fitted on calibration rows, however: there are none. Give the split a calibrate share above 0, "
            "or leave it out: set posthoc.calibration.kind, thresholds.kind and shift.kind to none."
        )
    exact = logits.double()
    if exact.gather(1, labels[:, None]).isinf().any():
        raise ValueError("every calibration label needs a class that was trained, however: one has logit -inf.")
    share = torch.ones(len(labels), dtype=torch.float64) if weight is None else weight.double()
    return exact, share / share.sum()


def with_rows(labels: Tensor, share: Tensor, classes: int) -> Tensor:
    """[C] bool: classes that some row with a weight belongs to; of the others nothing can be learnt."""
    return torch.bincount(labels, share, minlength=classes) > 0
