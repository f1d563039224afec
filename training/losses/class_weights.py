"""Class weights from class counts, in float64 and with mean 1 over the classes with rows."""

import math
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from frostbench.heads.spec import Spec


class NoWeight(Spec):
    """Equal weights."""

    kind: Literal["none"] = "none"

    def __call__(self, counts: Tensor) -> Tensor:
        """Return the weights [C] for counts [C]."""
        return normalised(torch.ones(len(counts), dtype=torch.float64), counts)


class InverseWeight(Spec):
    """Weights inversely proportional to class size."""

    kind: Literal["inverse"] = "inverse"

    def __call__(self, counts: Tensor) -> Tensor:
        """Return the weights [C] for counts [C]."""
        return normalised(1 / counts.double(), counts)


class SqrtInverseWeight(Spec):
    """Weights inversely proportional to the square root of class size."""

    kind: Literal["sqrt_inverse"] = "sqrt_inverse"

    def __call__(self, counts: Tensor) -> Tensor:
        """Return the weights [C] for counts [C]."""
        return normalised(counts.double().rsqrt(), counts)


class PowerWeight(Spec):
    """Weights inversely proportional to a power of class size."""

    kind: Literal["power"] = "power"
    power: float = Field(default=0.5, ge=0, le=2, title="Class weights: power")
    """Exponent of the inverse class size: 0 gives equal weights, 0.5 the square root, 1 inverse weights."""

    def __call__(self, counts: Tensor) -> Tensor:
        """Return the weights [C] for counts [C]."""
        return normalised(counts.double().pow(-self.power), counts)


class EffectiveWeight(Spec):
    """Weights inversely proportional to the effective number of samples of a class.

    Cui et al., "Class-balanced loss based on effective number of samples", CVPR 2019, eq. 2: the effective number
    of n samples is (1 - beta^n) / (1 - beta).
    """

    kind: Literal["effective"] = "effective"
    beta_rule: Literal["fixed", "auto", "ratio"] = Field(default="fixed", title="Class weights: choice of β")
    """How β is chosen: as given (fixed), (N - 1) / N for N training rows (auto), or from the weight ratio (ratio)."""
    beta: float = Field(default=0.9999, ge=0, lt=1, title="Class weights: overlap β")
    """Overlap between samples if the rule is fixed: 0 gives equal weights, values close to 1 inverse weights."""
    ratio: float = Field(default=50.0, ge=1, le=1e6, title="Class weights: largest to smallest ratio")
    """Ratio of the largest weight to the smallest if the rule is ratio, at most the ratio of inverse weights."""

    def __call__(self, counts: Tensor) -> Tensor:
        """Return the weights [C] for counts [C].

        >>> EffectiveWeight(beta=0.999)(torch.tensor([900, 90, 10])).numpy().round(6).tolist()
        [0.04443, 0.306283, 2.649288]
        """
        _check_rows(counts)
        exact = counts.double()
        log_beta = self._log_beta(exact)
        # For beta 1 the effective number is n; otherwise expm1 keeps 1 - beta^n accurate where beta^n rounds to 1.
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
    """Return the log of the beta that gives a ratio of effective weights between classes of `least` and `most` rows.

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
    """Scale raw weights [C] to mean 1 over the classes with rows; classes without rows get 0.

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
            "class weights need at least one class with training rows, but all counts are 0. Check the split."
        )


ClassWeightSpec = Annotated[
    NoWeight | InverseWeight | SqrtInverseWeight | PowerWeight | EffectiveWeight, Field(discriminator="kind")
]


class ConstantSchedule(Spec):
    """Full class weights from the first step."""

    kind: Literal["constant"] = "constant"

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """Return the weights [C] unchanged."""
        return weight


class DeferredSchedule(Spec):
    """Class weights only late in training.

    Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss", NeurIPS 2019, section 3.3
    (deferred re-weighting, DRW).
    """

    kind: Literal["deferred"] = "deferred"
    start: float = Field(default=0.8, ge=0, le=1, title="Class weights: start (share of training)")
    """Share of training with equal class weights."""

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """Return the weights [C] at a progress from 0 to 1, for weights [C] with mean 1."""
        return strengthened(weight, 1.0 if progress >= self.start else 0.0)


class RampSchedule(Spec):
    """Class weights that grow linearly during training."""

    kind: Literal["ramp"] = "ramp"
    start: float = Field(default=0.0, ge=0, le=1, title="Class weights: ramp start (share of training)")
    """Share of training with equal class weights, before they begin to differ."""
    end: float = Field(default=0.8, ge=0, le=1, title="Class weights: ramp end (share of training)")
    """Share of training after which the class weights apply in full."""

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if self.start >= self.end:
            raise ValueError(
                f"a ramp must start before it ends, got start={self.start:g} and end={self.end:g}. Lower start, or use "
                "kind=deferred for a single step."
            )
        return self

    def __call__(self, weight: Tensor, progress: float) -> Tensor:
        """Return the weights [C] at a progress from 0 to 1, for weights [C] with mean 1."""
        return strengthened(weight, min(1.0, max(0.0, (progress - self.start) / (self.end - self.start))))


def strengthened(weight: Tensor, strength: float) -> Tensor:
    """Interpolate between equal weights at strength 0 and `weight` [C] at 1; a mean of 1 is kept.

    >>> strengthened(torch.tensor([0.5, 1.5]), 0.5).tolist()
    [0.75, 1.25]
    """
    return 1 + (weight - 1) * strength


WeightScheduleSpec = Annotated[ConstantSchedule | DeferredSchedule | RampSchedule, Field(discriminator="kind")]
