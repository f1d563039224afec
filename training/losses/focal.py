"""Focal losses: samples that are easy already count less."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import softplus

from frostbench.heads.head import kinds_that
from frostbench.heads.posthoc.spec import NoCalibration
from frostbench.heads.spec import SWEPT, Tier
from frostbench.training.losses.method import LossMethod
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.rule import Rule

UNSURE = Rule(
    "warn",
    lambda run: (
        isinstance(run.train.loss.point, Focal | Flsd53 | DualFocal | SigmoidFocal)
        and not run.train.loss.point.is_convex
        and isinstance(run.posthoc.calibration, NoCalibration)
        and run.reads_loss_last
    ),
    "focal losses leave probabilities too unsure: set posthoc.calibration.kind=temperature",
)
"""The rule of all focal losses."""


class Focal(LossMethod):
    """Cross entropy times (1 - p)^gamma.

    Lin et al., "Focal loss for dense object detection", ICCV 2017, eq. 4, with softmax; p comes from the unweighted
    logits, and class weights multiply the result. For soft targets q it is sum_k q_k (1 - p_k)^gamma (-log p_k). The
    probabilities are less sure than those of cross entropy, so they need calibration.
    """

    tier: ClassVar[Tier] = "experimental"
    neutral: ClassVar[Mapping[str, float]] = {"gamma": 0}
    rules: ClassVar[tuple[Rule, ...]] = (UNSURE,)
    kind: Literal["focal"] = "focal"
    gamma: float = Field(default=2.0, ge=0, le=10, json_schema_extra=SWEPT, title="Focal loss: focusing γ")
    """Strength with which easy samples are weighed down; 0 is cross entropy."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits."""
        return self.is_neutral

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C] against targets."""
        log_p = scores.log_p
        return -targets.mean(_power(-torch.expm1(log_p), self.gamma) * log_p)


class Flsd53(LossMethod):
    """The focal loss with gamma 5 for labels of probability below 0.2, and 3 for the others (FLSD-53).

    Mukhoti et al., "Calibrating deep neural networks using focal loss", NeurIPS 2020. The power is chosen without
    gradient, by the probability of the label itself; with soft targets, of each class that is wanted. The official
    code takes the sum over a batch, here it is the mean.
    """

    tier: ClassVar[Tier] = "experimental"
    rules: ClassVar[tuple[Rule, ...]] = (UNSURE,)
    kind: Literal["flsd53"] = "flsd53"

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits: it is not."""
        return False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against targets."""
        log_p = scores.log_p
        gamma = torch.where(log_p.detach().exp() < 0.2, 5.0, 3.0).to(log_p.dtype)
        return -targets.mean(_power(-torch.expm1(log_p), gamma) * log_p)


class DualFocal(LossMethod):
    """Cross entropy times (1 - p + p_j)^gamma, with p_j the largest probability below that of the label.

    Tao et al., "Dual focal loss for calibration", ICML 2023. p_j is strictly below p, 0 where there is none, and has
    gradient. It belongs to a hard label: mixed rows count by the share of each label, and smoothing is refused.
    """

    tier: ClassVar[Tier] = "experimental"
    neutral: ClassVar[Mapping[str, float]] = {"gamma": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        UNSURE,
        Rule(
            "refuse",
            lambda run: (
                isinstance(run.train.loss.point, DualFocal)
                and run.train.loss.smoothing.epsilon > 0
                and not run.is_fitted
            ),
            "dual_focal compares a label with the class below it, and a smoothed label is several: set "
            "train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal",
        ),
    )
    kind: Literal["dual_focal"] = "dual_focal"
    gamma: float = Field(default=5.0, ge=0, le=20, json_schema_extra=SWEPT, title="Dual focal loss: focusing γ")
    """Strength with which easy samples are weighed down; 0 is cross entropy, the paper has 5 for CIFAR-10."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits."""
        return self.is_neutral

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against hard targets.

        Raises:
            ValueError: targets are smoothed.
        """
        if not targets.is_hard:
            raise ValueError(
                "dual_focal compares the label with the class below it, so it needs hard labels, however: they are "
                "smoothed. Set train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal."
            )
        log_p = scores.log_p
        own = targets.mean(log_p)
        below = torch.where(log_p < own[:, None], log_p.exp(), 0.0).amax(-1)
        return -_power(below - torch.expm1(own), self.gamma) * own


class SigmoidFocal(LossMethod):
    """The focal loss with a sigmoid for each class, summed over the classes.

    Lin et al., ICCV 2017, eq. 5; with class weights it is the class-balanced loss of Cui et al., CVPR 2019. A soft
    target q counts as q of a positive and 1 - q of a negative. Predictions are the largest logit; probabilities by
    softmax need calibration. It is twice torchvision's sigmoid_focal_loss at the same alpha.
    """

    tier: ClassVar[Tier] = "experimental"
    rules: ClassVar[tuple[Rule, ...]] = (
        UNSURE,
        Rule(
            "warn",
            lambda run: (
                isinstance(run.train.loss.point, SigmoidFocal)
                and run.reads_loss_last
                and (run.is_adjusted or run.is_shifted)
            ),
            "logit adjustment is derived for a softmax, and on the sigmoids of sigmoid_focal it shifts each class's "
            "odds for itself: use train.loss.point.kind=focal, or class weights",
        ),
        Rule(
            "refuse",
            lambda run: run.head.classifier.sets_margin and isinstance(run.train.loss.point, SigmoidFocal),
            f"{kinds_that(lambda kind: kind.sets_margin)} set a class's margin against the other classes of a "
            "softmax, and sigmoid_focal has a sigmoid for each class: use train.loss.point.kind=cross_entropy, or "
            "head.classifier.kind=linear",
        ),
        Rule(
            "warn",
            lambda run: (
                run.head.classifier.is_cosine
                and not run.head.classifier.sets_margin
                and isinstance(run.train.loss.point, SigmoidFocal)
            ),
            "sigmoids say no to most classes by their biases, and cosine classifiers have none: use "
            "head.classifier.kind=linear, or train.loss.point.kind=focal",
        ),
    )
    kind: Literal["sigmoid_focal"] = "sigmoid_focal"
    gamma: float = Field(default=2.0, ge=0, le=10, json_schema_extra=SWEPT, title="Sigmoid focal loss: focusing γ")
    """Strength with which easy classes are weighed down; 0 is binary cross entropy."""
    alpha: float = Field(default=0.5, gt=0, lt=1, json_schema_extra=SWEPT, title="Sigmoid focal loss: balance α")
    """Balance: the class itself counts 2 alpha and each other class 2 - 2 alpha, so 0.5 counts all alike."""

    @property
    def is_softmax(self) -> bool:
        """Whether the loss reads a softmax: it has a sigmoid for each class."""
        return False

    def start_linear(self, linear: nn.Linear, present: int) -> None:
        """Set biases at which each sigmoid says 1 / C+, so that the many that must say no do not rule the first steps.

        Lin et al., ICCV 2017, section 3.3.
        """
        linear.bias.fill_(-math.log(max(1, present - 1)))

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits: it is not."""
        return False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C] against targets."""
        # log p = -softplus(-z) and log(1 - p) = -softplus(z), so the powers are exponentials and nothing overflows.
        no_p, no_q = softplus(-scores.adjusted), softplus(scores.adjusted)
        wanted = targets.dense(scores.adjusted)
        positive = wanted * torch.exp(-self.gamma * no_q) * no_p
        negative = (1 - wanted) * torch.exp(-self.gamma * no_p) * no_q
        return 2 * (self.alpha * positive + (1 - self.alpha) * negative).sum(-1)


def _power(missing: Tensor, gamma: float | Tensor) -> Tensor:
    """Probabilities that are missing, to the power gamma.

    They have a floor, for where p rounds to 1 and gamma is below 1 the power has an infinite slope, times 0.
    """
    return missing.clamp(min=torch.finfo(missing.dtype).tiny).pow(gamma)
