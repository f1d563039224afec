"""Class weights from class counts, in float64, with mean 1 over the classes that have rows."""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from frostbench.heads.spec import Spec


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


class PowerWeight(Spec):
    """A class counts in inverse proportion to a power of its size."""

    kind: Literal["power"] = "power"
    power: float = Field(default=0.5, ge=0, le=2, title="Class weights: power")
    """Power of the inverse class size: 0 weighs all classes alike, 0.5 is the square root, 1 is inverse."""

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C]."""
        return normalised(counts.double().pow(-self.power), counts)


class EffectiveWeight(Spec):
    """A class counts in inverse proportion to its effective number of samples.

    Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019, eq. 2: the effective number
    of n samples is (1 - beta^n) / (1 - beta).
    """

    kind: Literal["effective"] = "effective"
    beta_rule: Literal["fixed", "auto", "ratio"] = Field(default="fixed", title="Class weights: choice of β")
    """Choice of β: the given number, (N - 1) / N for N training rows, or the one that gives the ratio."""
    beta: float = Field(default=0.9999, ge=0, lt=1, title="Class weights: overlap β")
    """Overlap of samples when the rule is fixed: 0 weighs all classes alike, towards 1 it becomes inverse."""
    ratio: float = Field(default=50.0, ge=1, le=1e6, title="Class weights: largest to smallest ratio")
    """Ratio of the largest weight to the smallest when the rule is ratio; that of inverse weights where it is less."""

    def __call__(self, counts: Tensor) -> Tensor:
        """Weights [C] of counts [C].

        >>> EffectiveWeight(beta=0.999)(torch.tensor([900, 90, 10])).numpy().round(6).tolist()
        [0.04443, 0.306283, 2.649288]
        """
        _check_rows(counts)
        exact = counts.double()
        log_beta = self._log_beta(exact)
        # In the limit of beta 1 the effective number is n; else expm1 keeps 1 - beta^n where beta^n rounds to 1.
        effective = exact if log_beta == 0 else torch.expm1(exact * log_beta) / math.expm1(log_beta)
        return normalised(1 / effective, counts)

    def _log_beta(self, counts: Tensor) -> float:
        if self.beta_rule == "ratio":
            present = counts[counts > 0]
            return log_beta_for(self.ratio, float(present.min()), float(present.max()))
        total = float(counts.sum())
        beta = (total - 1) / total if self.beta_rule == "auto" else self.beta
        return math.log(beta) if beta > 0 else -math.inf


def log_beta_for(ratio: float, least: float, most: float) -> float:
    """Log of the beta with which effective weights of classes of least and most rows have a ratio.

    The ratio falls from most / least at beta 1 to 1 at beta 0.

    >>> round(math.exp(log_beta_for(59.629203, 10, 900)), 6)
    0.999
    """
    if ratio >= most / least * (1 - 1e-9):
        return 0.0
    if ratio == 1:
        return -math.inf
    from scipy.optimize import brentq

    def excess(log_rate: float) -> float:
        rate = math.exp(log_rate)
        return math.expm1(-rate * most) / math.expm1(-rate * least) - ratio

    return -math.exp(brentq(excess, math.log(1e-12 / most), math.log(100 / least), xtol=1e-14))


def normalised(raw: Tensor, counts: Tensor) -> Tensor:
    """Raw weights [C] scaled to mean 1 over classes with rows; classes without rows get 0.

    Raises:
        ValueError: no class has a row.
    """
    _check_rows(counts)
    present = counts > 0
    weight = torch.where(present, raw, torch.zeros_like(raw))
    return weight * present.sum() / weight.sum()


def _check_rows(counts: Tensor) -> None:
    if not (counts > 0).any():
        raise ValueError(
            "class weights need at least one class with training rows, however: all counts are 0. Check the split."
        )


ClassWeightSpec = Annotated[
    NoWeight | InverseWeight | SqrtInverseWeight | PowerWeight | EffectiveWeight, Field(discriminator="kind")
]


class ConstantSchedule(Spec):
    """Class weights act from the first step."""

    kind: Literal["constant"] = "constant"

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """The weights [C] themselves, at any progress."""
        return weight


class DeferredSchedule(Spec):
    """Class weights act late in training only.

    Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss", NeurIPS 2019, section 3.3
    (deferred re-weighting, DRW).
    """

    kind: Literal["deferred"] = "deferred"
    start: float = Field(default=0.8, ge=0, le=1, title="Class weights: start (share of training)")
    """Share of training in which all classes weigh alike."""

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """Weights [C] at a progress from 0 to 1, from weights [C] with mean 1."""
        return strengthened(weight, 1.0 if progress >= self.start else 0.0)


class RampSchedule(Spec):
    """Class weights come in along a straight line."""

    kind: Literal["ramp"] = "ramp"
    start: float = Field(default=0.0, ge=0, le=1, title="Class weights: ramp start (share of training)")
    """Share of training after which the weights begin to differ."""
    end: float = Field(default=0.8, ge=0, le=1, title="Class weights: ramp end (share of training)")
    """Share of training after which they act in full."""

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if self.start >= self.end:
            raise ValueError(
                f"a ramp must start before it ends, however: start is {self.start:g} and end is {self.end:g}. Lower "
                "start, or use kind deferred for a jump."
            )
        return self

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """Weights [C] at a progress from 0 to 1, from weights [C] with mean 1."""
        return strengthened(weight, min(1.0, max(0.0, (progress - self.start) / (self.end - self.start))))


def strengthened(weight: Tensor, strength: float) -> Tensor:
    """Weights [C] between all alike at strength 0 and weight [C] at 1; a mean of 1 stays.

    >>> strengthened(torch.tensor([0.5, 1.5]), 0.5).tolist()
    [0.75, 1.25]
    """
    return 1 + (weight - 1) * strength


WeightScheduleSpec = Annotated[ConstantSchedule | DeferredSchedule | RampSchedule, Field(discriminator="kind")]
