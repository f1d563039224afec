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
    """Train on the hardest share of each batch, with a quota for every class in the batch.

    Shrivastava et al., "Training region-based object detectors with online hard example mining", CVPR 2016; the
    mean over the top k is the average top-k loss of Fan et al., NeurIPS 2017.
    """

    neutral: ClassVar[Mapping[str, float]] = {"keep": 1}
    prefers_single_labels: ClassVar[str] = "hardmine ranks rows by their loss, which is highest for evenly mixed ones"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: (run.is_solved or run.is_logreg) and run.train.loss.hardmine.keep < 1,
            "hardmine selects samples within a batch, and closed-form classifiers such as logreg have no batches: set "
            "train.loss.hardmine.keep=1, or use head.classifier.kind=linear",
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
            "a pxk batch holds no more rows per class than the quota of hardmine, so train.loss.hardmine drops no row: "
            "lower its quota, or raise train.sampler.rows",
        ),
    )
    kind: Literal["hardmine"] = "hardmine"
    keep: float = Field(default=1.0, ge=0.25, le=1, title="Hard-example mining: share of the batch kept")
    """Share of a batch kept at the end of training; 1 keeps every sample."""
    warm: float = Field(default=0.3, ge=0, lt=1, title="Hard-example mining: warm-up share")
    """Share of training in which every sample is kept, before the kept share falls linearly."""
    quota: int = Field(default=4, ge=0, le=1024, title="Hard-example mining: rows kept per class")
    """Number of samples of each class that are always kept in a batch, the hardest first."""
    noise_guard: bool = Field(default=False, title="Hard-example mining: drop the hardest 1 %")
    """Drop the hardest 1 % of a batch, at least one sample, where wrong labels accumulate."""

    def share(self, progress: float) -> float:
        """Return the kept share at a progress from 0 to 1.

        >>> [HardMine(keep=0.5).share(p) for p in (0.0, 0.3, 0.65, 1.0)]
        [1.0, 1.0, 0.75, 0.5]
        """
        return 1 - (1 - self.keep) * max(0.0, (progress - self.warm) / (1 - self.warm))

    def __call__(self, loss: Tensor, labels: Tensor, progress: float) -> Tensor:
        """Return a mask [N], 1 for kept samples, from their unweighted, unsmoothed loss [N], which is detached."""
        count = len(loss)
        # The last batch of an epoch may hold a single row, which must be kept.
        guarded = min(math.ceil(count / 100), count - 1) if self.noise_guard and self.keep < 1 else 0
        order = loss.detach().argsort(descending=True, stable=True)[guarded:]
        # Rounded first, because 0.3 * 120 is slightly more than 36 in floating point.
        size = max(1, math.ceil(round(self.share(progress) * count, 6)))
        is_hard = torch.arange(len(order), device=loss.device) < size
        is_kept = is_hard | (_rank(labels[order]) < self.quota)
        return torch.zeros_like(loss.detach()).scatter(0, order, is_kept.to(loss.dtype))


def _rank(labels: Tensor) -> Tensor:
    """Return for each entry of labels [N] how many earlier entries have the same label."""
    order = labels.argsort(stable=True)
    grouped = labels[order]
    index = torch.arange(len(labels), device=labels.device)
    is_first = torch.cat([torch.ones_like(grouped[:1], dtype=torch.bool), grouped[1:] != grouped[:-1]])
    start = torch.where(is_first, index, 0).cummax(0).values
    return torch.zeros_like(labels).scatter(0, order, index - start)


def _fills_quotas(sampler: object, mining: HardMine) -> bool:
    """Whether every row of a batch falls within the quota of its class."""
    is_small = isinstance(sampler, ClassBatches) and sampler.rows <= mining.quota
    return mining.keep < 1 and is_small and not mining.noise_guard
