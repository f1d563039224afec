"""The nearest class mean, a classifier without gradient steps."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import empty
from frostbench.heads.stepped.cosine import class_means, unit_rows
from frostbench.heads.stepped.scale import default_scale


class NearestMean(FittedClassifier):
    """Logits measure how close a row, scaled to length 1, is to the mean of each class.

    Mensink et al., "Distance-based image classification", TPAMI 2013; on centred unit rows with the Euclidean
    distance it is the NCM of Kang et al., "Decoupling representation and classifier for long-tailed recognition",
    ICLR 2020, section 4. All classes count equally, however rare they are.
    """

    kind: Literal["ncm"] = "ncm"
    metric: Literal["cosine", "euclidean"] = Field(default="cosine", title="Nearest class mean: metric")
    """Logit: scale times the cosine to the class mean, or minus half the scale times the squared distance to it."""
    center: bool = Field(default=True, title="Nearest class mean: centre the rows")
    """Whether the mean of the training rows is subtracted before a row is scaled to length 1."""
    scale: float | None = Field(
        default=None,
        ge=1,
        le=200,
        json_schema_extra=empty("by number of classes"),
        title="Nearest class mean: logit scale",
    )
    """Factor on the logits; if empty, it is chosen by the number of classes (10 to 30)."""

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior: no, since a mean does not depend on the number of rows."""
        return False

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it: only through the mean of all rows, if that is subtracted."""
        return self.center

    def fit(self, rows: Rows) -> "MeanLayer":
        """Return the layer with the class means of the rows."""
        x = rows.x.double()
        share = rows.weight.to(x) / rows.weight.sum().to(x)
        center = share @ x if self.center else torch.zeros_like(x[0])
        means, _ = class_means(unit_rows(x - center), rows.labels, rows.weight, rows.classes)
        if self.metric == "cosine":
            means = unit_rows(means)
        return MeanLayer(center.float(), means.float(), self._scale(rows.classes), self.metric)

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "MeanLayer":
        """Return a layer to load numbers into."""
        return MeanLayer(torch.zeros(dim), torch.zeros(classes, dim), self._scale(classes), self.metric)

    def _scale(self, classes: int) -> float:
        return default_scale(classes) if self.scale is None else self.scale


class MeanLayer(nn.Module):
    """Similarity of the centred unit row to the class means.

    cosine: scale x·μ, for unit means. euclidean: -scale/2 |x - μ|². If all means have length 1, the two differ by the
    same number for all classes. With scale 2 the latter is the negative squared distance.

    Shapes: h [N, H], center [H], means [C, H] -> [N, C]
    """

    center: Tensor
    means: Tensor
    scale: Tensor

    def __init__(self, center: Tensor, means: Tensor, scale: float, metric: Literal["cosine", "euclidean"]) -> None:
        super().__init__()
        self.register_buffer("center", center)
        self.register_buffer("means", means)
        self.register_buffer("scale", means.new_full((), scale))
        self.metric = metric

    def forward(self, h: Tensor) -> Tensor:
        """Return the logits [N, C] of h [N, H]."""
        x = unit_rows(h.to(self.means.dtype) - self.center)
        near = x @ self.means.T
        if self.metric == "cosine":
            return self.scale * near
        return self.scale * (near - (self.means.square().sum(1) + x.square().sum(1, keepdim=True)) / 2)
