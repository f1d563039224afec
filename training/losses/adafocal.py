"""AdaFocal: a focal loss whose power follows the calibration of held-out rows."""

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
    """The focal loss with a power for each bin of confidence, moved after every epoch by that bin's calibration.

    Ghosh et al., "AdaFocal: calibration-aware adaptive focal loss", NeurIPS 2022. A positive power gamma is the focal
    loss (1 - p)^gamma CE, a negative one the inverse focal loss (1 + p)^|gamma| CE, where p is the probability of the
    label. Bins hold equally many selection rows by confidence, as in the official code, and gamma follows confidence
    less accuracy of the selection rows in them. These rows then shape training: judge calibration on others.
    """

    tier: ClassVar[Tier] = "experimental"
    needs_single_labels: ClassVar[str] = "adafocal, unlike focal, sorts samples by the probability of their one label"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "refuse",
            lambda run: isinstance(run.train.loss.point, AdaFocal) and run.is_solved and not run.is_fitted,
            "adafocal moves its powers after each epoch and logreg has none: use train.loss.point.kind=focal, or "
            "head.classifier.kind=linear",
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
            "adafocal sorts training samples by adjusted probabilities into bins of selection rows that are not "
            "adjusted: set train.loss.logit_adjustment.tau=0",
        ),
        Rule(
            "warn",
            lambda run: (
                isinstance(run.train.loss.point, AdaFocal)
                and run.posthoc.rows in ("select", "both")
                and run.posthoc.reads_rows
            ),
            "adafocal trains by the calibration of the selection rows, so what is fitted to them after training sees "
            "rows that shaped it: give the split a calibrate share and set posthoc.rows=calibrate",
        ),
    )
    kind: Literal["adafocal"] = "adafocal"
    bins: int = Field(default=15, ge=1, le=100, title="AdaFocal: confidence bins")
    """Number of confidence bins, each with a power of its own."""
    start: float = Field(default=1.0, gt=0, le=20, title="AdaFocal: initial power γ")
    """Power of every bin in the first epoch."""
    rate: float = Field(default=1.0, gt=0, le=100, title="AdaFocal: adaptation rate λ")
    """Speed at which a power follows confidence less accuracy of its bin (λ of the paper)."""
    switch: float = Field(default=0.2, gt=0, le=20, title="AdaFocal: sign-switch threshold")
    """A power that gets closer to 0 than this changes its sign."""
    lowest: float = Field(default=-2.0, ge=-20, lt=0, title="AdaFocal: lowest power")
    """Least power that a bin can have."""
    highest: float = Field(default=20.0, gt=0, le=100, title="AdaFocal: highest power")
    """Largest power that a bin can have."""

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the logits: it is not."""
        return False

    @property
    def needs(self) -> frozenset[Need]:
        """The selection rows, whose calibration it follows."""
        return frozenset({"selection"})

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "AdaFocalPart":
        """Build the bins."""
        return AdaFocalPart(*self.first())

    def __call__(self, scores: Scores, targets: Targets) -> Tensor:
        """Loss [N] of scores [N, C+] against hard targets with the powers of the first epoch."""
        edges, powers = (scores.log_p.new_tensor(values) for values in self.first())
        return self.by_bin(scores, targets, edges, powers)

    def first(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Inner edges [M - 1] of even bins, and the first powers [M]."""
        return tuple(place / self.bins for place in range(1, self.bins)), (self.start,) * self.bins

    def by_bin(self, scores: Scores, targets: Targets, edges: Tensor, powers: Tensor) -> Tensor:
        """Loss [N] of scores [N, C+] against hard targets, by inner edges [M - 1] and powers [M] of the bins."""
        loss = -targets.mean(scores.log_p)
        p = (-loss).exp()
        power = powers[(p.detach()[:, None] > edges).sum(1)]
        # A floor, for where p rounds to 1 and the power is below 1 the slope is infinite, times 0.
        easy = (1 - p).clamp(min=torch.finfo(p.dtype).tiny).pow(power.clamp(min=0))
        return easy * (1 + p).pow((-power).clamp(min=0)) * loss

    def after_epoch(self, powers: Tensor, confidences: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Inner edges [M - 1] and powers [M] after an epoch, by confidences [R] of held-out rows and which were right.

        A bin without rows, of which there are some where rows are fewer than bins, keeps its power.
        """
        order = confidences.argsort(stable=True)
        sure, above = confidences[order].double(), confidences[order].double() - right[order].double()
        gaps = [part.mean() if len(part) else part.new_zeros(()) for part in above.tensor_split(self.bins)]
        ends = torch.tensor([len(part) for part in order.tensor_split(self.bins)], device=order.device).cumsum(0)[:-1]
        edges = (sure[(ends - 1).clamp(min=0)] + sure[ends.clamp(max=len(sure) - 1)]) / 2
        return edges.to(powers.dtype), self.moved(powers, torch.stack(gaps).to(powers.dtype))

    def moved(self, powers: Tensor, gap: Tensor) -> Tensor:
        """Powers [M] after held-out rows of each bin showed this gap [M] of confidence less accuracy.

        >>> AdaFocal().moved(torch.tensor([1.0, 0.21, -0.21, 19.0]), torch.tensor([0.1, -0.1, 0.1, 0.9]))
        tensor([ 1.1052, -0.2000,  0.2000, 20.0000])
        """
        grown = powers * torch.exp(torch.where(powers > 0, gap, -gap) * self.rate)
        switched = torch.where(grown.abs() < self.switch, -grown.sign() * self.switch, grown)
        return switched.clamp(self.lowest, self.highest)


class AdaFocalPart(LossPart[AdaFocal]):
    """The bins and their powers.

    Attributes:
        edges: [M - 1] between the bins.
        powers: [M].
    """

    edges: Tensor
    powers: Tensor

    def __init__(self, edges: tuple[float, ...], powers: tuple[float, ...]) -> None:
        super().__init__()
        self.register_buffer("edges", torch.tensor(edges))
        self.register_buffer("powers", torch.tensor(powers))

    def effect(self, method: AdaFocal, step: StepContext) -> Effect:
        """Take each sample's power from its bin."""

        def point(scores: Scores, targets: Targets) -> Tensor:
            return method.by_bin(scores, targets, self.edges, self.powers)

        def per_sample(inner: PointLoss) -> PointLoss:
            return point

        return Effect(per_sample=per_sample)

    def after_epoch(self, method: AdaFocal, state: Mapping[str, Tensor], logits: Tensor, own: Tensor) -> Updates:
        """Move the powers by the calibration of the selection rows."""
        sure, best = logits.softmax(-1).max(-1)
        edges, powers = method.after_epoch(state["powers"], sure, best == own)
        return {"edges": edges, "powers": powers}
