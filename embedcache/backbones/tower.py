"""What each provider makes of its models: features of images, and vectors of features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import nn

from frostbench.embedcache.backbones.pooling import PoolingName

Features = Mapping[int | str, torch.Tensor]
"""What a model gives: its final tokens or maps under `END`, those of earlier blocks under -2 and lower, and whatever
else a provider's poolings need under names."""
END: Final = 0


@dataclass(frozen=True)
class Offer:
    """Which poolings a model has.

    Attributes:
        available: their names, without exponents and layers.
        default: those that are stored where nothing is asked for.
        depth: how many blocks can be pooled, 0 where only the end can.
    """

    available: tuple[str, ...]
    default: tuple[str, ...]
    depth: int = 0


class Tower(Protocol):
    """A frozen image model, from normalised pixels to vectors."""

    @property
    def model(self) -> nn.Module:
        """The network, which is moved to a device and never trained."""

    @property
    def libraries(self) -> Sequence[str]:
        """Distributions, besides those that every backbone uses, whose versions may move the vectors."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Fields of the recipe that all poolings share and only the provider knows."""

    @property
    def half_breaks(self) -> bool:
        """Whether the model's activations leave the range of float16."""

    def sha256(self) -> str:
        """The hash of the weights; asked before the size is set."""

    def set_size(self, size: int) -> None:
        """Make the model take images of size x size pixels; ValueError where it cannot."""

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """From normalised images [B, 3, S, S]; runs under autocast."""

    def offer(self, features: Features) -> Offer:
        """The poolings that this model has, seen by the features of one image; ValueError where it has none."""

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """float32 features to float32 [B, D], or [B, T, D] of tokens."""


Loaded = tuple[Tower, dict[str, Any]]
"""A model, and how it wants its images: input_size, crop_pct, crop_mode, interpolation, mean and std."""
