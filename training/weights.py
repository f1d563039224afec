"""Class weights from class counts, in float64, with mean 1 over the classes that have rows."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import Spec


class NoWeight(Spec):
    """Every sample counts the same."""

    kind: Literal["none"] = "none"

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C]."""
        return normalised(torch.ones(len(counts), dtype=torch.float64), counts)


class InverseWeight(Spec):
    """A class counts in inverse proportion to its size."""

    kind: Literal["inverse"] = "inverse"

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C]."""
        return normalised(1 / counts.double(), counts)


class SqrtInverseWeight(Spec):
    """A class counts in inverse proportion to the square root of its size."""

    kind: Literal["sqrt_inverse"] = "sqrt_inverse"

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C]."""
        return normalised(counts.double().rsqrt(), counts)


class EffectiveWeight(Spec):
    """A class counts in inverse proportion to its effective number of samples.

    Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019, eq. 2: the effective number
    of n samples is (1 - beta^n) / (1 - beta).
    """

    kind: Literal["effective"] = "effective"
    beta_rule: Literal["fixed", "auto"] = "fixed"
    """Whether beta is the number given, or (N - 1) / N for N training rows."""
    beta: float = Field(default=0.9999, ge=0, lt=1)
    """Overlap of samples when the rule is fixed: 0 weighs all classes alike, towards 1 it becomes inverse."""

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C].

        >>> EffectiveWeight(beta=0.999)(torch.tensor([900, 90, 10])).numpy().round(6).tolist()
        [0.04443, 0.306283, 2.649288]
        """
        total = counts.sum().double()
        beta = (total - 1) / total if self.beta_rule == "auto" else torch.tensor(self.beta, dtype=torch.float64)
        # expm1 keeps 1 - beta^n exact where beta^n rounds to 1.
        return normalised((1 - beta) / -torch.expm1(counts.double() * beta.log()), counts)


def normalised(raw: Tensor, counts: Tensor) -> Tensor:
    """Raw weights [C] scaled to mean 1 over classes with rows; classes without rows get 0.

    Raises:
        ValueError: no class has a row.
    """
    present = counts > 0
    if not present.any():
        raise ValueError("class weights need at least one class with training rows, however: all counts are 0.")
    weight = torch.where(present, raw, torch.zeros_like(raw))
    return weight * present.sum() / weight.sum()


ClassWeightSpec = Annotated[NoWeight | InverseWeight | SqrtInverseWeight | EffectiveWeight, Field(discriminator="kind")]
