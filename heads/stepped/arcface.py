"""The ArcFace head: an angular margin on the true class in training, with sub-centres."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.heads.stepped.margin import (
    MarginClassifier,
    class_margins,
    number,
    own_scores,
    warmed_up,
    with_own_changed,
)


class ArcFace(MarginClassifier):
    """A cosine classifier that adds a margin to the angle of the true class in training.

    Deng et al., "ArcFace", CVPR 2019, eq. 3; several centres per class: Deng et al., "Sub-center ArcFace", ECCV
    2020. The default margin of 0.2 suits frozen features, whose angles can hardly change; the 0.5 of face networks is
    out of reach for them. With two classes, use at most 0.2.
    """

    kind: Literal["arcface"] = "arcface"
    margin: float = Field(default=0.2, ge=0, le=1.5, json_schema_extra=SWEPT, title="ArcFace margin (radians)")
    """Angle in radians that is added to the angle of the true class in training."""
    scale: float | None = Field(
        default=None, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="ArcFace scale"
    )
    """Factor on the cosines; if empty, it is chosen by the number of classes (10 to 30)."""
    centers: int = Field(default=1, ge=1, le=10, title="ArcFace: centres per class")
    """Centres per class, of which the nearest counts; classes with fewer than two rows per centre get one."""
    warmup: float = Field(
        default=0.15, ge=0, le=1, json_schema_extra=SWEPT, title="ArcFace: margin warm-up (share of training)"
    )
    """Share of training during which the margin rises linearly from 0."""
    easy_margin: bool = Field(default=False, title="ArcFace: easy margin")
    """Apply the margin only to rows with a positive cosine to their class, which exempts the hardest rows."""
    tail_exponent: float = Field(
        default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="ArcFace: tail exponent of the margin"
    )
    """Exponent of a class's factor (n_min / n_j)^exponent on the margin; 1/4 is that of Cao et al., NeurIPS 2019."""
    init: Literal["random", "class_means"] = Field(default="random", title="ArcFace: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    @property
    def favours_rare(self) -> bool:
        """Whether its margins are larger for rarer classes."""
        return self.margin > 0 and self.tail_exponent > 0

    @property
    def centers_per_class(self) -> int:
        """Maximum number of centres per class."""
        return self.centers

    def start(self, layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
        """Reduce classes with few rows to a single centre, and set the initial weights."""
        counts = torch.bincount(rows.labels, minlength=rows.classes)
        layer.used[:, 1:] = (counts >= 2 * self.centers).unsqueeze(1).to(layer.used.device)
        super().start(layer, rows, generator)

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] = scale cos, with the margin on each row's class in own [N]; see `Classifier`."""
        factor = number(scale, logits)
        cos = own_scores(logits, own) / factor
        margins = class_margins(self.margin, counts, self.tail_exponent, logits)[own]
        margins = margins * warmed_up(progress, self.warmup, logits)
        return with_own_changed(logits, own, factor * (widened(cos, margins, self.easy_margin) - cos))


def widened(cos: Tensor, margin: Tensor, easy: bool = False) -> Tensor:
    """Return cos(θ + margin) for cos = cos θ, continued so that it never rises as θ grows.

    Past θ = π - margin, where cos θ = -cos(margin), the cosine of the sum would rise again and reward a row for being
    further away. There, the result is cos θ - margin sin(margin), which keeps falling, as in the ArcFace authors' code.
    An easy margin is 0 from θ = π/2 on, where the result jumps up. cos(θ + margin) is expanded, because acos has no
    finite derivative at ±1; below its floor of 1e-6, sin θ has derivative 0.
    """
    sin = (1 - cos.square()).clamp_min(1e-12).sqrt()
    added = cos * margin.cos() - sin * margin.sin()
    if easy:
        return torch.where(cos > 0, added, cos)
    return torch.where(cos > -margin.cos(), added, cos - margin * margin.sin())
