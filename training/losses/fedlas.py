"""FeDLaS: how far each sample's label is smoothed, by the norm of its features and a learned gate."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.spec import SWEPT, Spec
from frostbench.training.losses.mbls import margin_penalty
from frostbench.training.losses.scores import Scores

OFFICIAL = (20.0, 100.0)
"""Mean and deviation of the norms before the first batch, in the official code."""
SLACK = 1e-3
"""What is added to the deviation of the norms."""


class Fedlas(Spec):
    """Smooth each label by its own share a = 2 alpha sigmoid(beta psi gamma), between 0 and 2 alpha.

    "FedLAS: feature-modulated bidirectional label smoothing for neural network calibration", arXiv:2606.28654, 2026
    (FeDLaS in its tables), as the official code has it where that differs. gamma is the sample's feature
    norm less the running mean, in running deviations; psi is 1 or -1, from a small network on the logits (the gate),
    with a straight-through gradient. The loss is (1 - a) CE + a E, where E is cross entropy to uniform targets, or
    (1 - a) CE + a R with the margin penalty R of MbLS. The gate sees no calibration: it lowers the training loss, which
    with E mostly means a below alpha (its controls are gate, share and beta = 0). Gate and statistics are thrown away
    after training.
    """

    kind: Literal["fedlas"] = "fedlas"
    alpha: float = Field(default=0.0, ge=0, lt=0.5, json_schema_extra=SWEPT)
    """Share of a label that is moved at the mean feature norm; others lie between 0 and twice this. 0 moves none."""
    base: Literal["label_smoothing", "mbls"] = "label_smoothing"
    """What the share goes to: cross entropy to even targets, or the margin penalty of MbLS."""
    beta: float = Field(default=4.0, ge=0, le=100, json_schema_extra=SWEPT)
    """How sharply the norm acts; 0 gives every sample alpha. The paper has 4, and 0.5 to 1 with base mbls."""
    margin: float = Field(default=10.0, ge=0, le=1000, json_schema_extra=SWEPT)
    """Gap to the largest logit from which base mbls penalises."""
    reduction: Literal["mean", "sum"] = "mean"
    """Whether that penalty is the mean over the classes, as in the official code, or the sum, as in the paper."""
    spread: Literal["uniform", "prior"] = "uniform"
    """Where base label_smoothing moves the share: evenly, or by the effective prior, which suits logit adjustment."""
    indicator: Literal["l1", "l2", "max_logit", "max_prob"] = "l1"
    """What tells how sure the head is: a norm of the features, the largest logit, or the largest probability."""
    source: Literal["penultimate", "input"] = "penultimate"
    """Whose norm: the classifier's input, which a body makes, or the vector in units, before standardisation."""
    statistics: Literal["first_batch", "official", "exact"] = "first_batch"
    """Mean and deviation of norms: running from the first batch or 20 and 100 (official), or exact for all rows.

    Norms of vectors are those in units (see head.preprocess), about 16 for l2.
    """
    theta: float = Field(default=0.5, gt=0, le=1)
    """Weight of each batch in the running mean and deviation; the paper has 0.5 to 0.95."""
    gate: Literal["learned", "plus", "minus", "random"] = "learned"
    """Whether a large norm means a larger share: learned, or as a control always, never (minus), or drawn at random."""
    share: Literal["own", "batch_mean"] = "own"
    """Each sample's own share; or as a control the mean of the batch for all, which is label smoothing at that mean."""
    gate_width: int = Field(default=0, ge=0, le=4096)
    """Hidden width of the gate; 0 is half the number of classes."""
    gate_rate: float = Field(default=1.0, gt=0, le=1000)
    """Factor on the learning rate for the gate."""

    def build_gate(self, classes: int, generator: torch.Generator) -> nn.Module:
        """The gate for that many classes; nothing where the sign is not learned."""
        if self.alpha == 0 or self.gate != "learned":
            return nn.Identity()
        return Gate(classes, self.gate_width or max(1, classes // 2), generator)

    def reads_input(self, has_body: bool) -> bool:
        """Whether norms are those of cached vectors; a body that changes nothing leaves only these."""
        return self.source == "input" or not has_body

    def strengths(self, features: Tensor, logits: Tensor) -> Tensor:
        """The indicator [N] of features [N, H] and logits [N, C+], without gradient."""
        if self.indicator == "max_logit":
            return logits.detach().amax(-1)
        if self.indicator == "max_prob":
            return logits.detach().softmax(-1).amax(-1)
        norms: Tensor = torch.linalg.vector_norm(features.detach().flatten(1), 1 if self.indicator == "l1" else 2, 1)
        return norms

    def moved(self, norms: Tensor, before: Tensor) -> Tensor:
        """Mean and deviation [2] (ddof 1) after a batch of norms [N]; NaN before means that there was none.

        A batch of one row has no deviation, and one with a norm that is not finite has none either: both leave them.
        """
        if len(norms) < 2 or self.statistics == "exact":
            return before
        batch = torch.stack([norms.mean(), norms.std()])
        later = torch.where(before.isfinite(), before + self.theta * (batch - before), batch)
        return torch.where(batch.isfinite().all(), later, before)

    def shares(self, norms: Tensor, statistics: Tensor, signs: Tensor) -> Tensor:
        """The share a [N] of samples with these norms [N] and signs psi [N], by mean and deviation [2]."""
        return 2 * self.alpha * (self.beta * signs * gamma(norms, statistics)).sigmoid()

    def regulariser(self, scores: Scores, prior: Tensor) -> Tensor:
        """What the share goes to [N]: E or R of scores [N, C+]; prior [C+] is the effective one."""
        if self.base == "mbls":
            return margin_penalty(scores.raw, self.margin, self.reduction)
        return -(scores.log_p.mean(-1) if self.spread == "uniform" else scores.log_p @ prior)

    def blended(self, plain: Tensor, other: Tensor, share: Tensor) -> Tensor:
        """(1 - a) plain + a other, each [N]; with the mean share, the gate still learns from its own."""
        if self.share == "own":
            return plain + share * (other - plain)
        to_gate = share * (other - plain).detach()
        return plain + share.detach().mean() * (other - plain) + (to_gate - to_gate.detach())


class Gate(nn.Module):
    """A sign for each row of logits [N, C+], in [N]; backwards it is the difference of two probabilities.

    Linear, leaky ReLU (slope 0.01), linear to two outputs, softmax; the sign is that of the second less the first, and
    0 where they are equal.
    """

    def __init__(self, classes: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.hidden: Dense = linear_layer(classes, width, generator)
        self.out: Dense = linear_layer(width, 2, generator)

    def forward(self, logits: Tensor) -> Tensor:
        """Signs psi [N] of logits [N, C+], which get no gradient."""
        first, second = self.out(leaky_relu(self.hidden(logits.detach()))).softmax(-1).unbind(-1)
        difference: Tensor = second - first
        return difference.detach().sign() + (difference - difference.detach())


def gamma(norms: Tensor, statistics: Tensor) -> Tensor:
    """How far norms [N] lie above the mean, in deviations, by both [2]; 0 before there are any."""
    known = torch.where(statistics.isfinite(), statistics, 0.0)
    scaled = (norms - known[0]) / (known[1] + SLACK)
    return torch.where(statistics.isfinite().all(), scaled, 0.0)
