"""Hard-example mining."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.spec import NoCalibration
from frostbench.training.losses.method import LossMethod
from frostbench.training.rule import Rule
from frostbench.training.sampling.samplers import ClassBatches


class HardMine(LossMethod):
    """Train on the hardest share of each batch, with a quota for every class in it.

    Shrivastava et al., "Training region-based object detectors with online hard example mining", CVPR 2016; the
    mean over the top k is the average top-k loss of Fan et al., NeurIPS 2017.
    """

    neutral: ClassVar[Mapping[str, float]] = {"keep": 1}
    prefers_single_labels: ClassVar[str] = "hardmine ranks rows by their loss, which is highest for evenly mixed ones"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: (run.is_solved or run.is_logreg) and run.train.loss.hardmine.keep < 1,
            "hardmine chooses samples batch by batch and a solved classifier such as logreg has no batches: set "
            "train.loss.hardmine.keep=1 or use head.classifier.kind=linear",
        ),
        Rule(
            "warn",
            lambda run: (
                run.train.loss.hardmine.keep < 1
                and isinstance(run.posthoc.calibration, NoCalibration)
                and run.reads_loss_last
            ),
            "hardmine distorts probabilities: set posthoc.calibration.kind=temperature",
        ),
        Rule(
            "warn",
            lambda run: _fills_quotas(run.train.sampler, run.train.loss.hardmine) and not run.is_mixed,
            "a batch of pxk holds no more rows of a class than hardmine always keeps, so train.loss.hardmine leaves "
            "none out: lower its quota, or raise train.sampler.rows",
        ),
    )
    kind: Literal["hardmine"] = "hardmine"
    keep: float = Field(default=1.0, ge=0.25, le=1, title="Hard-example mining: share of the batch kept")
    """Share of a batch that is kept at the end of training; 1 keeps every sample."""
    warm: float = Field(default=0.3, ge=0, lt=1, title="Hard-example mining: warm-up share")
    """Share of training in which everything is kept, before the kept share falls linearly."""
    quota: int = Field(default=4, ge=0, le=1024, title="Hard-example mining: rows kept per class")
    """Samples of each class in the batch that are always kept, the hardest first."""
    noise_guard: bool = Field(default=False, title="Hard-example mining: drop the hardest 1 %")
    """Leave out the hardest 1 % of a batch, at least one sample, which is where wrong labels gather."""

    def share(self, progress: float) -> float:
        """Kept share at a progress from 0 to 1.

        >>> [HardMine(keep=0.5).share(p) for p in (0.0, 0.3, 0.65, 1.0)]
        [1.0, 1.0, 0.75, 0.5]
        """
        past = max(0.0, (progress - self.warm) / (1 - self.warm))
        return 1 - (1 - self.keep) * past

    def __call__(self, loss: Tensor, labels: Tensor, progress: float) -> Tensor:
        """Mask [N], 1 for kept samples, from their unweighted, unsmoothed loss [N] (the ranking is detached)."""
        count = len(loss)
        # The last batch of a pass can be of one row, and without it there were nothing to train on.
        guarded = min(math.ceil(count / 100), count - 1) if self.noise_guard and self.keep < 1 else 0
        order = loss.detach().argsort(descending=True, stable=True)[guarded:]
        # Rounded first: 0.3 of 120 rows is a little more than 36 in floating point.
        size = max(1, math.ceil(round(self.share(progress) * count, 6)))
        place = torch.arange(len(order), device=loss.device)
        inside = (place < size) | (_rank(labels[order]) < self.quota)
        return torch.zeros_like(loss.detach()).scatter(0, order, inside.to(loss.dtype))


def _rank(labels: Tensor) -> Tensor:
    """How many earlier entries of labels [N] have the same label, [N]."""
    order = labels.argsort(stable=True)
    grouped = labels[order]
    place = torch.arange(len(labels), device=labels.device)
    is_first = torch.cat([torch.ones_like(grouped[:1], dtype=torch.bool), grouped[1:] != grouped[:-1]])
    start = torch.where(is_first, place, 0).cummax(0).values
    return torch.zeros_like(labels).scatter(0, order, place - start)


def _fills_quotas(sampler: object, mining: HardMine) -> bool:
    """Whether a batch holds no more rows of a class than are always kept."""
    is_small = isinstance(sampler, ClassBatches) and sampler.rows <= mining.quota
    return mining.keep < 1 and is_small and not mining.noise_guard
