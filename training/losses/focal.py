"""Focal losses, which down-weight easy samples."""

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
    "focal losses give underconfident probabilities: set posthoc.calibration.kind=temperature",
)
"""Rule shared by all focal losses."""


class Focal(LossMethod):
    """Cross entropy times (1 - p)^gamma, where p is the probability of the label.

    Lin et al., "Focal loss for dense object detection", ICCV 2017, eq. 4, with softmax; class weights multiply the
    result. For soft targets q the loss is sum_k q_k (1 - p_k)^gamma (-log p_k). The probabilities are less confident
    than those of cross entropy, so they need calibration.
    """

    tier: ClassVar[Tier] = "experimental"
    neutral: ClassVar[Mapping[str, float]] = {"gamma": 0}
    rules: ClassVar[tuple[Rule, ...]] = (UNSURE,)
    kind: Literal["focal"] = "focal"
    gamma: float = Field(default=2.0, ge=0, le=10, json_schema_extra=SWEPT, title="Focal loss: focusing γ")
    """Strength of down-weighting easy samples; 0 gives cross entropy."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits."""
        return self.is_neutral

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C] against targets."""
        log_p = scores.log_p
        return -targets.mean(_power(-torch.expm1(log_p), self.gamma) * log_p)


class Flsd53(LossMethod):
    """Focal loss with gamma 5 if the label's probability is below 0.2, otherwise 3 (FLSD-53).

    Mukhoti et al., "Calibrating deep neural networks using focal loss", NeurIPS 2020. The exponent is chosen without
    gradient by the label's probability, or under soft targets by that of each class. The official code sums over a
    batch; here the mean is taken.
    """

    tier: ClassVar[Tier] = "experimental"
    rules: ClassVar[tuple[Rule, ...]] = (UNSURE,)
    kind: Literal["flsd53"] = "flsd53"

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits; it is not."""
        return False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against targets."""
        log_p = scores.log_p
        gamma = torch.where(log_p.detach().exp() < 0.2, 5.0, 3.0).to(log_p.dtype)
        return -targets.mean(_power(-torch.expm1(log_p), gamma) * log_p)


class DualFocal(LossMethod):
    """Cross entropy times (1 - p + p_j)^gamma, where p_j is the largest probability below that of the label.

    Tao et al., "Dual focal loss for calibration", ICML 2023. p_j is strictly below p, 0 if no class is below, and has
    a gradient. The loss is defined for hard labels: mixed rows count each label by its share; smoothing is an error.
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
            "dual_focal compares the label with the class below it, which is undefined for smoothed labels: set "
            "train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal",
        ),
    )
    kind: Literal["dual_focal"] = "dual_focal"
    gamma: float = Field(default=5.0, ge=0, le=20, json_schema_extra=SWEPT, title="Dual focal loss: focusing γ")
    """Strength of down-weighting easy samples; 0 gives cross entropy, and the paper uses 5 for CIFAR-10."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits."""
        return self.is_neutral

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against hard targets.

        Raises:
            ValueError: the targets are smoothed.
        """
        if not targets.is_hard:
            raise ValueError(
                "dual_focal needs hard labels, got smoothed ones. Set train.loss.smoothing.epsilon=0, or use "
                "train.loss.point.kind=focal."
            )
        log_p = scores.log_p
        of_label = targets.mean(log_p)
        below = torch.where(log_p < of_label[:, None], log_p.exp(), 0.0).amax(-1)
        return -_power(below - torch.expm1(of_label), self.gamma) * of_label


class SigmoidFocal(LossMethod):
    """Focal loss with one sigmoid per class, summed over the classes.

    Lin et al., ICCV 2017, eq. 5; with class weights it is the class-balanced loss of Cui et al., CVPR 2019. A soft
    target q counts as q of a positive and 1 - q of a negative. The predicted class has the largest logit; softmax
    probabilities need calibration. The loss is twice torchvision's sigmoid_focal_loss at the same alpha.
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
            "logit adjustment is derived for a softmax, but with sigmoid_focal it shifts the odds of each class "
            "separately: use train.loss.point.kind=focal, or class weights",
        ),
        Rule(
            "refuse",
            lambda run: run.head.classifier.sets_margin and isinstance(run.train.loss.point, SigmoidFocal),
            f"{kinds_that(lambda kind: kind.sets_margin)} set a class's margin against the other classes of a "
            "softmax, but sigmoid_focal uses one sigmoid per class: use train.loss.point.kind=cross_entropy, or "
            "head.classifier.kind=linear",
        ),
        Rule(
            "warn",
            lambda run: (
                run.head.classifier.is_cosine
                and not run.head.classifier.sets_margin
                and isinstance(run.train.loss.point, SigmoidFocal)
            ),
            "sigmoids need biases to reject most classes, and cosine classifiers have none: use "
            "head.classifier.kind=linear, or train.loss.point.kind=focal",
        ),
    )
    kind: Literal["sigmoid_focal"] = "sigmoid_focal"
    gamma: float = Field(default=2.0, ge=0, le=10, json_schema_extra=SWEPT, title="Sigmoid focal loss: focusing γ")
    """Strength of down-weighting easy classes; 0 gives binary cross entropy."""
    alpha: float = Field(default=0.5, gt=0, lt=1, json_schema_extra=SWEPT, title="Sigmoid focal loss: balance α")
    """Balance: the label's class has weight 2 alpha and every other class 2 - 2 alpha; 0.5 weights all equally."""

    @property
    def is_softmax(self) -> bool:
        """Whether the loss uses a softmax; it does not, but one sigmoid per class."""
        return False

    def start_linear(self, linear: nn.Linear, present: int) -> None:
        """Set biases at which each sigmoid is 1 / C+, so that negatives do not dominate the first steps.

        Lin et al., ICCV 2017, section 3.3.
        """
        linear.bias.fill_(-math.log(max(1, present - 1)))

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits; it is not."""
        return False

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C] against targets."""
        # log p = -softplus(-z) and log(1 - p) = -softplus(z), so the powers are exponentials and nothing overflows.
        nll_positive, nll_negative = softplus(-scores.adjusted), softplus(scores.adjusted)
        target = targets.dense(scores.adjusted)
        positive = target * torch.exp(-self.gamma * nll_negative) * nll_positive
        negative = (1 - target) * torch.exp(-self.gamma * nll_positive) * nll_negative
        return 2 * (self.alpha * positive + (1 - self.alpha) * negative).sum(-1)


def _power(base: Tensor, gamma: float | Tensor) -> Tensor:
    """Return base^gamma; the floor avoids an infinite slope times 0 where the base rounds to 0 and gamma < 1."""
    return base.clamp(min=torch.finfo(base.dtype).tiny).pow(gamma)
