"""The cosine classifier, and the layer that the margin and prototype heads share with it."""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import FILE, SWEPT, empty
from frostbench.heads.stepped.scale import WIDEST_SCALE, default_scale
from frostbench.heads.stepped.text_weights import text_weights, with_file_hash


class Cosine(Classifier):
    """Logits are scale times the cosine between the row and its class's weight, trained by gradient steps; no bias.

    Gidaris and Komodakis, "Dynamic few-shot visual learning without forgetting", CVPR 2018. A row's
    length plays no part, so rescaling the features changes nothing. Centre them: a direction that all rows share
    leaves little angle between the classes.
    """

    is_cosine: ClassVar[bool] = True
    kind: Literal["cosine"] = "cosine"
    scale: float | None = Field(
        default=None,
        ge=1,
        le=200,
        json_schema_extra=SWEPT | empty("by number of classes"),
        title="Cosine classifier: scale",
    )
    """Factor on the cosines; left empty, it follows from the number of classes (10 to 30)."""
    init: Literal["random", "class_means", "weights"] = Field(
        default="random", title="Cosine classifier: initial weights"
    )
    """Initial weights: random directions, the mean direction of each class's rows, or weights from a file."""
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Cosine classifier: weights file")
    """The .npz file with the arrays weights [C, D] and class_names [C], for init weights."""
    sha256: str = Field(default="", max_length=64, title="Cosine classifier: SHA-256 of the file")
    """SHA-256 of that file; left empty, it is taken from the file."""

    @model_validator(mode="before")
    @classmethod
    def _note_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    @model_validator(mode="after")
    def _a_file_goes_with_weights(self) -> "Cosine":
        if (self.init == "weights") != bool(self.file):
            raise ValueError(
                f"a file is needed for init weights and for no other, however: init is {self.init} and file is "
                f"{self.file!r}. Give both, or none."
            )
        return self

    @property
    def logit_bound(self) -> float:
        """The scale, or the widest one that follows from a number of classes."""
        return WIDEST_SCALE if self.scale is None else self.scale

    @property
    def reads_all_at_once(self) -> str:
        """The start at class means, for which all rows are read."""
        return "init=class_means" if self.init == "class_means" else ""

    @property
    def keeps_space(self) -> bool:
        """Whether its weights start in the space of the vectors, at those from a file."""
        return self.init == "weights"

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Refuse classes or a width that the file to start from does not have.

        Raises:
            ValueError: the file is missing, has changed, lacks a class, or has another width.
        """
        if self.init == "weights":
            fitting(text_weights(self.file, self.sha256, class_names), dim, self.file)

    def build(self, dim: int, classes: int, generator: torch.Generator) -> "CosineLayer":
        """The layer from width dim to that many classes, with random directions from generator."""
        return random_layer(dim, classes, self.scale, generator)

    def start(self, layer: "CosineLayer", rows: Rows, generator: torch.Generator) -> None:
        """Move the layer's weights to where init says, by the training rows; see `start_at_means`."""
        if self.init == "class_means":
            start_at_means(layer, rows, generator)
        if self.init == "weights":
            weight = text_weights(self.file, self.sha256, rows.class_names)
            with torch.no_grad():
                layer.weight.copy_(unit_rows(fitting(weight, layer.weight.shape[2], self.file)).unsqueeze(1))


class CosineLayer(nn.Module):
    """Scale times the cosine between a row and its class's centres, the nearest one or all of them softly.

    A class has M centres, of which `used` [C, M] says which count. combine "max" takes the nearest; "lse" takes
    the log of the mean of exp(scale cos) over them, so that M equal centres are as good as one.
    An all-zero row has the cosine 0. Everything stays in the dtype of the weight.

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
        """Logits [N, C] of h [N, H]."""
        classes, centers, _ = self.weight.shape
        directions = unit_rows(self.weight).flatten(0, 1)
        logits = self.scale * (unit_rows(h.to(directions.dtype)) @ directions.T)
        if centers == 1:
            return logits
        each = logits.reshape(len(h), classes, centers)
        each = torch.where(self.used, each, torch.full_like(each, -torch.inf))
        if self.combine == "max":
            return each.amax(2)
        return each.logsumexp(2) - self.used.sum(1).to(each).log()


def unit_rows(x: Tensor) -> Tensor:
    """Vectors x [..., H] at length 1; one shorter than 1e-12 becomes 0, with no gradient.

    Dividing by a floor instead would give a vector of zeros a gradient of up to 1e12.
    """
    squared = x.square().sum(-1, keepdim=True)
    long_enough = squared > 1e-24
    return torch.where(long_enough, x * torch.where(long_enough, squared, torch.ones_like(squared)).rsqrt(), 0.0)


def random_layer(
    dim: int, classes: int, scale: float | None, generator: torch.Generator, centers: int = 1
) -> CosineLayer:
    """A layer of random unit weights [classes, centers, dim] with that scale, or the default one for the classes."""
    weight = unit_rows(torch.randn(classes, centers, dim, generator=generator))
    return CosineLayer(weight, default_scale(classes) if scale is None else scale)


def start_at_means(layer: CosineLayer, rows: Rows, generator: torch.Generator) -> None:
    """Set each class's weights to the mean direction of its rows, plus a jitter of length 1e-3 per centre.

    The jitter tells centres of one class apart, and keeps a class of one row off cos = 1, where an angle has no
    gradient. Classes without rows, or whose rows cancel out, keep the weights they have.
    """
    means, _ = class_means(unit_rows(rows.x.double()), rows.labels, rows.weight, rows.classes)
    directions = unit_rows(means).to(layer.weight).unsqueeze(1)
    noise = unit_rows(torch.randn(layer.weight.shape, generator=generator)).to(layer.weight)
    known = (directions != 0).any(2, keepdim=True)
    with torch.no_grad():
        layer.weight.copy_(torch.where(known, directions + 1e-3 * noise, layer.weight))


def class_means(x: Tensor, labels: Tensor, weight: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The weighted mean [C, H] of each class's rows x [N, H], and the classes' total weights [C].

    A class without rows has the mean 0.
    """
    each = weight.to(x)
    mass = x.new_zeros(classes).index_add(0, labels, each)
    total = x.new_zeros(classes, x.shape[1]).index_add(0, labels, x * each.unsqueeze(1))
    return total / torch.where(mass > 0, mass, torch.ones_like(mass)).unsqueeze(1), mass


def fitting(weight: Tensor, dim: int, file: str) -> Tensor:
    """The weight [C, D] if its width is that of the rows.

    Raises:
        ValueError: it is not.
    """
    if weight.shape[1] != dim:
        raise ValueError(
            f"the weights of {file} must be as wide as the classifier's input, {dim}, however: they are "
            f"{weight.shape[1]} wide. Take features and weights of one joint image-text space, and no body."
        )
    return weight
