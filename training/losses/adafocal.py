"""AdaFocal: a focal loss whose exponent adapts to the calibration on validation rows."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.spec import Tier
from frostbench.training.losses.method import LossMethod, LossPart, Need
from frostbench.training.losses.scores import PointLoss, Scores, Targets
from frostbench.training.losses.step import Effect, StepContext, Updates
from frostbench.training.rule import Rule


class AdaFocal(LossMethod):
    """Focal loss with one exponent per confidence bin, updated after every epoch by the calibration of that bin.

    Ghosh et al., "AdaFocal: calibration-aware adaptive focal loss", NeurIPS 2022. A positive exponent gamma gives the
    focal loss (1 - p)^gamma CE, a negative one the inverse focal loss (1 + p)^|gamma| CE, where p is the probability of
    the label. Bins hold equally many validation rows by confidence, as in the official code, and gamma follows
    confidence minus accuracy of these rows. The validation rows thus shape training: evaluate calibration on others.
    """

    tier: ClassVar[Tier] = "experimental"
    needs_single_labels: ClassVar[str] = "adafocal, unlike focal, sorts samples by the probability of their one label"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: isinstance(run.train.loss.point, AdaFocal) and run.is_solved and not run.is_fitted,
            "adafocal updates its exponents after each epoch, and logreg has no epochs: use "
            "train.loss.point.kind=focal, or head.classifier.kind=linear",
        ),
        Rule(
            "refuse",
            lambda run: isinstance(run.train.loss.point, AdaFocal) and run.train.loss.smoothing.epsilon > 0,
            "adafocal sorts samples by the probability of their label, and smoothed labels have no single one: set "
            "train.loss.smoothing.epsilon=0, or use train.loss.point.kind=focal",
        ),
        Rule(
            "warn",
            lambda run: isinstance(run.train.loss.point, AdaFocal) and run.is_adjusted,
            "adafocal assigns training samples by adjusted probabilities to bins of unadjusted validation rows: set "
            "train.loss.logit_adjustment.tau=0",
        ),
        Rule(
            "warn",
            lambda run: (
                isinstance(run.train.loss.point, AdaFocal)
                and run.posthoc.rows in ("select", "both")
                and run.posthoc.reads_rows
            ),
            "adafocal trains on the calibration of the validation rows, so a calibration fitted to the same rows is "
            "biased: give the split a calibrate share and set posthoc.rows=calibrate",
        ),
    )
    kind: Literal["adafocal"] = "adafocal"
    bins: int = Field(default=15, ge=1, le=100, title="AdaFocal: confidence bins")
    """Number of confidence bins, each of which has its own exponent."""
    start: float = Field(default=1.0, gt=0, le=20, title="AdaFocal: initial exponent γ")
    """Exponent of every bin in the first epoch."""
    rate: float = Field(default=1.0, gt=0, le=100, title="AdaFocal: adaptation rate λ")
    """Speed at which an exponent follows the confidence minus the accuracy of its bin (λ in the paper)."""
    switch: float = Field(default=0.2, gt=0, le=20, title="AdaFocal: sign-switch threshold")
    """An exponent that gets closer to 0 than this jumps to this distance on the other side of 0."""
    lowest: float = Field(default=-2.0, ge=-20, lt=0, title="AdaFocal: lowest exponent")
    """Smallest exponent that a bin can have."""
    highest: float = Field(default=20.0, gt=0, le=100, title="AdaFocal: highest exponent")
    """Largest exponent that a bin can have."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits; it is not."""
        return False

    @property
    def needs(self) -> frozenset[Need]:
        """The validation rows, whose calibration drives the exponents."""
        return frozenset({"selection"})

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "AdaFocalPart":
        """Build the bins."""
        return AdaFocalPart(*self.initial_bins())

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Return the loss [N] of scores [N, C+] against hard targets, with the exponents of the first epoch."""
        edges, powers = (scores.log_p.new_tensor(values) for values in self.initial_bins())
        return self.by_bin(scores, targets, edges, powers)

    def initial_bins(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the inner edges [M - 1] of equal-width bins, and the initial exponents [M]."""
        return tuple(k / self.bins for k in range(1, self.bins)), (self.start,) * self.bins

    def by_bin(self, scores: Scores, targets: Targets, edges: Tensor, powers: Tensor) -> Tensor:
        """Return the loss [N] of scores [N, C+] against hard targets, for bins with edges [M - 1] and powers [M]."""
        loss = -targets.mean(scores.log_p)
        p = (-loss).exp()
        power = powers[(p.detach()[:, None] > edges).sum(1)]
        # The floor avoids an infinite slope times 0 where p rounds to 1 and the power is below 1.
        easy = (1 - p).clamp(min=torch.finfo(p.dtype).tiny).pow(power.clamp(min=0))
        return easy * (1 + p).pow((-power).clamp(min=0)) * loss

    def after_epoch(self, powers: Tensor, confidences: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Return inner edges [M - 1] and powers [M] after an epoch, from validation rows' confidences and hits [R].

        If there are fewer rows than bins, some bins have no rows and keep their powers.
        """
        order = confidences.argsort(stable=True)
        sure, above = confidences[order].double(), confidences[order].double() - right[order].double()
        gaps = [part.mean() if len(part) else part.new_zeros(()) for part in above.tensor_split(self.bins)]
        ends = torch.tensor([len(part) for part in order.tensor_split(self.bins)], device=order.device).cumsum(0)[:-1]
        edges = (sure[(ends - 1).clamp(min=0)] + sure[ends.clamp(max=len(sure) - 1)]) / 2
        return edges.to(powers.dtype), self.updated(powers, torch.stack(gaps).to(powers.dtype))

    def updated(self, powers: Tensor, gap: Tensor) -> Tensor:
        """Return the powers [M] updated by each bin's gap [M]: mean confidence minus accuracy of its validation rows.

        >>> AdaFocal().updated(torch.tensor([1.0, 0.21, -0.21, 19.0]), torch.tensor([0.1, -0.1, 0.1, 0.9]))
        tensor([ 1.1052, -0.2000,  0.2000, 20.0000])
        """
        grown = powers * torch.exp(torch.where(powers > 0, gap, -gap) * self.rate)
        switched = torch.where(grown.abs() < self.switch, -grown.sign() * self.switch, grown)
        return switched.clamp(self.lowest, self.highest)


class AdaFocalPart(LossPart[AdaFocal]):
    """State of AdaFocal for one head: confidence bins and their exponents.

    Attributes:
        edges: [M - 1] inner edges of the bins.
        powers: [M] exponents of the bins.
    """

    edges: Tensor
    powers: Tensor

    def __init__(self, edges: tuple[float, ...], powers: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("edges", torch.tensor(edges))
        self.register_buffer("powers", torch.tensor(powers))

    def effect(self, method: AdaFocal, step: StepContext) -> Effect:
        """Replace the point loss by the focal loss with the exponent of each sample's bin."""

        def point(scores: Scores, targets: Targets) -> Tensor:
            return method.by_bin(scores, targets, self.edges, self.powers)

        def per_sample(inner: PointLoss) -> PointLoss:
            return point

        return Effect(per_sample=per_sample)

    def after_epoch(
        self, method: AdaFocal, state: Mapping[str, Tensor], logits: Tensor, label_index: Tensor
    ) -> Updates:
        """Update the exponents by the calibration on the validation rows."""
        sure, best = logits.softmax(-1).max(-1)
        edges, powers = method.after_epoch(state["powers"], sure, best == label_index)
        return {"edges": edges, "powers": powers}
