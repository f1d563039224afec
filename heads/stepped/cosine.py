"""The cosine classifier, with the base class and layer that all cosine heads share."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier
from frostbench.heads.file_hash import with_file_hash
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import FILE, SWEPT, empty
from frostbench.heads.stepped.scale import WIDEST_SCALE, default_scale
from frostbench.heads.stepped.text_weights import text_weights


class CosineClassifier(Classifier):
    """A classifier with a `CosineLayer`.

    Each kind declares `scale`, and also `init`, unless it overrides `start` and `reads_all_at_once`, which read it.
    """

    is_cosine: ClassVar[bool] = True

    # Each kind declares its own, with its default, title and position.
    if TYPE_CHECKING:
        scale: float | None
        init: str
        margin: float

    @property
    def logit_bound(self) -> float:
        """Upper bound on |logit|: the scale, or the largest default scale."""
        return WIDEST_SCALE if self.scale is None else self.scale

    @property
    def reads_all_at_once(self) -> str:
        """The option that needs all training rows at once: a start at class means."""
        return "init=class_means" if self.init == "class_means" else ""

    def build(self, dim: int, classes: int, generator: torch.Generator) -> "CosineLayer":
        """Build the layer with `dim` inputs and `classes` outputs, with random directions from generator."""
        return random_layer(dim, classes, self.scale, generator, self.centers_per_class)

    def start(self, layer: "CosineLayer", rows: Rows, generator: torch.Generator) -> None:
        """Set the layer's initial weights as `init` requires; see `start_at_means`."""
        if self.init == "class_means":
            start_at_means(layer, rows, generator)


class Cosine(CosineClassifier):
    """Logits are scale times the cosine between the row and each class's weight, trained with gradient steps; no bias.

    Gidaris and Komodakis, "Dynamic few-shot visual learning without forgetting", CVPR 2018. The length of a row has no
    influence, so rescaling the features changes nothing. Centre the features: a direction that all rows share leaves
    only small angles between the classes.
    """

    kind: Literal["cosine"] = "cosine"
    scale: float | None = Field(
        default=None,
        ge=1,
        le=200,
        json_schema_extra=SWEPT | empty("by number of classes"),
        title="Cosine classifier: scale",
    )
    """Factor on the cosines; if empty, it is chosen by the number of classes (10 to 30)."""
    init: Literal["random", "class_means", "weights"] = Field(
        default="random", title="Cosine classifier: initial weights"
    )
    """Initial weights: random directions, the mean direction of each class's rows, or weights from a file."""
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Cosine classifier: weights file")
    """Path to the .npz file with the arrays weights [C, D] and class_names [C], for init=weights."""
    sha256: str = Field(default="", max_length=64, title="Cosine classifier: SHA-256 of the file")
    """SHA-256 of that file; if empty, it is computed from the file."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    @model_validator(mode="after")
    def _a_file_goes_with_weights(self) -> "Cosine":
        if (self.init == "weights") != bool(self.file):
            raise ValueError(
                f"A file is required for init=weights and only there, got init={self.init} and file={self.file!r}. Set "
                "both or neither."
            )
        return self

    @property
    def keeps_space(self) -> bool:
        """Whether its weights start at those from a file, in the space of the vectors."""
        return self.init == "weights"

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Check that the file of initial weights has all classes and this width; see `Classifier`."""
        if self.init == "weights":
            fitting(text_weights(self.file, self.sha256, class_names), dim, self.file)

    def start(self, layer: "CosineLayer", rows: Rows, generator: torch.Generator) -> None:
        """Set the layer's initial weights as `init` requires, from the training rows or the file."""
        super().start(layer, rows, generator)
        if self.init == "weights":
            weight = text_weights(self.file, self.sha256, rows.class_names)
            with torch.no_grad():
                layer.weight.copy_(unit_rows(fitting(weight, layer.weight.shape[2], self.file)).unsqueeze(1))


class CosineLayer(nn.Module):
    """Scale times the cosine between a row and a class's centres: the nearest, or a soft maximum over them.

    A class has M centres, of which `used` [C, M] marks those that count. combine "max" takes the nearest; "lse" takes
    the log of the mean of exp(scale cos) over them, so that M equal centres behave as one.
    An all-zero row has cosine 0. Everything stays in the dtype of the weight.

    Shapes: h [N, H], weight [C, M, H] -> [N, C]

    >>> layer = CosineLayer(torch.tensor([[[2.0, 0]], [[0, 0.5]]]), scale=10)
    >>> layer(torch.tensor([[3.0, 4], [0, 0]])).tolist()
    [[6.0, 8.0], [0.0, 0.0]]
    """

    scale: Tensor
    used: Tensor

    def __init__(self, weight: Tensor, scale: float, combine: Literal["max", "lse"] = "max") -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.register_buffer("scale", weight.new_full((), scale))
        self.register_buffer("used", torch.ones(weight.shape[:2], dtype=torch.bool, device=weight.device))
        self.combine = combine

    def forward(self, h: Tensor) -> Tensor:
        """Return the logits [N, C] of h [N, H]."""
        classes, centers, _ = self.weight.shape
        directions = unit_rows(self.weight).flatten(0, 1)
        logits = self.scale * (unit_rows(h.to(directions.dtype)) @ directions.T)
        if centers == 1:
            return logits
        per_center = logits.reshape(len(h), classes, centers)
        per_center = torch.where(self.used, per_center, torch.full_like(per_center, -torch.inf))
        if self.combine == "max":
            return per_center.amax(2)
        return per_center.logsumexp(2) - self.used.sum(1).to(per_center).log()


def unit_rows(x: Tensor) -> Tensor:
    """Scale vectors x [..., H] to length 1; one shorter than 1e-12 becomes 0, with no gradient.

    Dividing by a floor instead would give a vector of zeros a gradient of up to 1e12.
    """
    squared = x.square().sum(-1, keepdim=True)
    long_enough = squared > 1e-24
    return torch.where(long_enough, x * torch.where(long_enough, squared, torch.ones_like(squared)).rsqrt(), 0.0)


def random_layer(
    dim: int, classes: int, scale: float | None, generator: torch.Generator, centers: int = 1
) -> CosineLayer:
    """Build a layer of random unit weights [classes, centers, dim], with the default scale if scale is None."""
    weight = unit_rows(torch.randn(classes, centers, dim, generator=generator))
    return CosineLayer(weight, default_scale(classes) if scale is None else scale)


def start_at_means(layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
    """Set each class's weights to the mean direction of its rows, plus a jitter of length 1e-3 per centre.

    The jitter separates the centres of a class, and keeps a class with one row away from cos = 1, where the
    derivative of the angle is infinite. Classes without rows, or whose rows cancel out, keep their weights.
    """
    means, _ = class_means(unit_rows(rows.x.double()), rows.labels, rows.weight, rows.classes)
    directions = unit_rows(means).to(layer.weight).unsqueeze(1)
    noise = unit_rows(torch.randn(layer.weight.shape, generator=generator)).to(layer.weight)
    known = (directions != 0).any(2, keepdim=True)
    with torch.no_grad():
        layer.weight.copy_(torch.where(known, directions + 1e-3 * noise, layer.weight))


def class_means(x: Tensor, labels: Tensor, weight: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the weighted mean [C, H] of each class's rows x [N, H], and the total weight [C] of each class.

    A class without rows has mean 0.
    """
    weight = weight.to(x)
    mass = x.new_zeros(classes).index_add(0, labels, weight)
    total = x.new_zeros(classes, x.shape[1]).index_add(0, labels, x * weight.unsqueeze(1))
    return total / torch.where(mass > 0, mass, torch.ones_like(mass)).unsqueeze(1), mass


def fitting(weight: Tensor, dim: int, file: str) -> Tensor:
    """Return the weight [C, D] after a check of its width.

    Raises:
        ValueError: the width is not that of the rows.
    """
    if weight.shape[1] != dim:
        raise ValueError(
            f"The weights in {file} must be as wide as the classifier's input, {dim}, got {weight.shape[1]}. Use "
            "features and weights of one joint image-text space, without a body."
        )
    return weight
