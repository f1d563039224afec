"""ArcFace: an angular margin on the own class during training, with sub-centres."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.heads.stepped.margin import class_margins, number, own_scores, warmed_up, with_own_changed
from frostbench.heads.stepped.margin_classifier import MarginClassifier


class ArcFace(MarginClassifier):
    """A cosine classifier that in training must find the own class with its angle widened by a margin.

    Deng et al., "ArcFace", CVPR 2019, eq. 3; several centres per class: Deng et al., "Sub-center ArcFace", ECCV
    2020. The margin of 0.2 is for frozen features: the angles there can hardly change, and the 0.5 of face
    networks asks for more than they have. With two classes take no more than 0.2.
    """

    kind: Literal["arcface"] = "arcface"
    margin: float = Field(default=0.2, ge=0, le=1.5, json_schema_extra=SWEPT, title="ArcFace margin (radians)")
    """Angle in radians added to the angle of the own class in training."""
    scale: float | None = Field(
        default=None, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="ArcFace scale"
    )
    """Factor on the cosines; left empty, it follows from the number of classes (10 to 30)."""
    centers: int = Field(default=1, ge=1, le=10, title="ArcFace: centres per class")
    """Centres per class, of which the nearest counts; classes with fewer than twice as many rows have one."""
    warmup: float = Field(
        default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="ArcFace: warm-up share of the margin"
    )
    """Share of the training over which the margin rises linearly from 0."""
    easy_margin: bool = Field(default=False, title="ArcFace: easy margin")
    """Apply the margin only to rows whose own cosine is positive, and spare those where it would act most."""
    tail_exponent: float = Field(
        default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="ArcFace: tail exponent of the margin"
    )
    """Margin of a class is margin (n_min / n_j)^this: 0 treats all alike, 1/4 is that of Cao et al., NeurIPS 2019."""
    init: Literal["random", "class_means"] = Field(default="random", title="ArcFace: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0."""
        return self.margin == 0

    @property
    def favours_rare(self) -> bool:
        """Whether its margins are larger for rarer classes."""
        return self.margin > 0 and self.tail_exponent > 0

    @property
    def centers_per_class(self) -> int:
        """The most centres that a class can have."""
        return self.centers

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Leave one centre to classes of few rows, and move the weights to where init says."""
        counts = torch.bincount(rows.labels, minlength=rows.classes)
        layer.used[:, 1:] = (counts >= 2 * self.centers).unsqueeze(1).to(layer.used.device)
        super().start(layer, rows, generator)

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """The logits [N, C+] = scale cos, with the margin on each row's own [N] class; counts [C+], progress 0..1."""
        factor = number(scale, logits)
        cos = own_scores(logits, own) / factor
        margins = class_margins(self.margin, counts, self.tail_exponent, logits)[own]
        margins = margins * warmed_up(progress, self.warmup, logits)
        return with_own_changed(logits, own, factor * (widened(cos, margins, self.easy_margin) - cos))


def widened(cos: Tensor, margin: Tensor, easy: bool = False) -> Tensor:
    """cos(θ + margin) for cos = cos θ, continued so that it never rises as θ grows.

    Past θ = π - margin, where cos θ = -cos(margin), the cosine of the sum would rise again, and reward a row for
    being further off. There, cos θ - margin sin(margin) falls on (as in the ArcFace paper's own code). An easy margin
    is none from θ = π/2 on.
    The sum is expanded, because acos has no finite derivative at ±1; under the floor sin θ has the derivative 0.
    """
    sin = (1 - cos.square()).clamp_min(1e-12).sqrt()
    added = cos * margin.cos() - sin * margin.sin()
    if easy:
        return torch.where(cos > 0, added, cos)
    return torch.where(cos > -margin.cos(), added, cos - margin * margin.sin())
