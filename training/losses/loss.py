"""The catalogue of losses, and their composition into one objective."""

from dataclasses import dataclass

from torch import Tensor

from heads.spec import Spec
from training.facts import Facts
from training.losses.cross_entropy import CrossEntropy
from training.losses.hardmine import HardMine
from training.losses.label_smoothing import LabelSmoothing
from training.losses.logit_adjustment import LogitAdjustment
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
    """Scalar objective of logits [N, C] and labels [N] at a training progress from 0 to 1.

    The weight of a sample is that of its own class, and the mean divides by the weights that took part. torch's
    cross_entropy(weight=, label_smoothing=) spreads the weights over the smoothing mass instead, whose optimum
    for a clean sample of a frequent class can be a rare class (pytorch issue 104776).
    """
    stages = scores(spec, logits, facts)
    own = facts.position[labels]
    targets = spec.smoothing(own, facts.log_prior_effective.exp().to(stages.log_p.dtype))
    loss = spec.point(stages.log_p, targets)
    weight = facts.weight.to(loss.dtype)[own]
    if spec.hardmine.keep < 1:
        plain = -stages.raw.log_softmax(-1).gather(1, own[:, None]).squeeze(1)
        weight = weight * spec.hardmine(plain, own, len(facts.weight), progress)
    return (weight * loss).sum() / weight.sum()
