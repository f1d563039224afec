"""The catalogue of losses, and their composition into one objective."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.spec import Spec
from training.facts import Facts
from training.losses.cross_entropy import CrossEntropy
from training.losses.hardmine import HardMine
from training.losses.label_smoothing import LabelSmoothing
from training.losses.logit_adjustment import LogitAdjustment
from training.losses.supcon import SupCon
from training.weights import ClassWeightSpec, NoWeight


class LossSpec(Spec):
    """What is minimised: the class-weighted mean of a loss per sample."""

    point: CrossEntropy = CrossEntropy()
    """Loss of one sample."""
    smoothing: LabelSmoothing = LabelSmoothing()
    """Softens the labels."""
    class_weight: ClassWeightSpec = NoWeight()
    """How much a class counts."""
    logit_adjustment: LogitAdjustment = LogitAdjustment()
    """Shifts the training logits by the class prior."""
    hardmine: HardMine = HardMine()
    """Which samples of a batch count."""
    supcon: SupCon = SupCon()
    """A term beside the mean that draws rows of one class together."""


@dataclass(frozen=True)
class Branch:
    """A hard label of every sample and its share of that sample; mixup has two branches, else there is one.

    Attributes:
        labels: [N] class indices.
        share: [N]; those of all branches sum to 1.
    """

    labels: Tensor
    share: Tensor


@dataclass(frozen=True)
class Scores:
    """Every stage of the logits of the classes that have training rows; each [N, C+]."""

    raw: Tensor
    adjusted: Tensor
    log_p: Tensor


def scores(spec: LossSpec, logits: Tensor, facts: Facts) -> Scores:
    """The stages for logits [N, C] over all classes; classes without training rows are cut out."""
    raw = logits[:, facts.present]
    log_prior = facts.log_prior_raw if spec.logit_adjustment.prior == "raw" else facts.log_prior_effective
    adjusted = spec.logit_adjustment(raw, log_prior.to(raw.dtype))
    return Scores(raw, adjusted, adjusted.log_softmax(-1))


def objective(spec: LossSpec, logits: Tensor, labels: Tensor, facts: Facts, progress: float) -> Tensor:
    """Scalar objective of logits [N, C] and labels [N] at a training progress from 0 to 1."""
    return branched_objective(spec, logits, (Branch(labels, logits.new_ones(len(labels))),), facts, progress)


def branched_objective(
    spec: LossSpec, logits: Tensor, branches: Sequence[Branch], facts: Facts, progress: float
) -> Tensor:
    """Scalar objective of logits [N, C] and the branches of their labels at a training progress from 0 to 1.

    The weight of a sample in a branch is that of its class there times its share, and the mean divides by the weights
    that took part. torch's cross_entropy(weight=, label_smoothing=) spreads the weights over the smoothing mass
    instead, whose optimum for a clean sample of a frequent class can be a rare class (pytorch issue 104776).
    """
    stages = scores(spec, logits, facts)
    prior = facts.log_prior_effective.exp().to(stages.log_p.dtype)
    kept = _kept(spec, stages, branches, facts, progress)
    totals, weights = [], []
    for branch in branches:
        own = facts.position[branch.labels]
        loss = spec.point(stages.log_p, spec.smoothing(own, prior))
        weight = facts.weight.to(loss.dtype)[own] * branch.share.to(loss.dtype) * kept
        totals.append((weight * loss).sum())
        weights.append(weight.sum())
    return torch.stack(totals).sum() / torch.stack(weights).sum()


def _kept(spec: LossSpec, stages: Scores, branches: Sequence[Branch], facts: Facts, progress: float) -> Tensor:
    """Mask [N] of the samples that hard mining keeps; a mixed sample fills the quota of the class it has most of."""
    if spec.hardmine.keep == 1:
        return stages.raw.new_ones(len(stages.raw))
    log_p = stages.raw.detach().log_softmax(-1)
    own = torch.stack([facts.position[branch.labels] for branch in branches])
    share = torch.stack([branch.share.to(log_p.dtype) for branch in branches])
    plain = -(share * log_p.gather(1, own.T).T).sum(0)
    largest = own.gather(0, share.argmax(0, keepdim=True)).squeeze(0)
    return spec.hardmine(plain, largest, len(facts.weight), progress)
