"""Interface of the providers' models, from images to features and from features to vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch import nn

from frostbench.embedcache.backbones.pooling import PoolingName

Features = Mapping[int | str, torch.Tensor]
"""Output of a model: final tokens or maps under `END`, those of earlier blocks under -2 and lower, and further values
under names."""
END: Final = 0


@dataclass(frozen=True)
class Offer:
    """Poolings of a model.

    Attributes:
        available: names of the poolings, without exponents and layers.
        default: poolings that are stored by default.
        depth: number of blocks that can be pooled, 0 if only the final output can.
    """

    available: tuple[str, ...]
    default: tuple[str, ...]
    depth: int = 0


class Tower(Protocol):
    """Frozen image model, from normalised pixels to vectors."""

    @property
    def model(self) -> nn.Module:
        """Network, which is moved to a device and never trained."""

    @property
    def libraries(self) -> Sequence[str]:
        """Further Python packages, besides those that every backbone uses, whose versions may affect the vectors."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Recipe fields that all poolings share and only the provider knows."""

    @property
    def half_breaks(self) -> bool:
        """Whether the model's activations exceed the range of float16."""

    def sha256(self) -> str:
        """Return the hash of the weights; called before the size is set."""

    def set_size(self, size: int) -> None:
        """Set the input size to size x size pixels; raise ValueError if the model does not support it."""

    def features(self, x: torch.Tensor, layers: Sequence[int]) -> Features:
        """Compute the features of normalised images [B, 3, S, S]; runs under autocast."""

    def offer(self, features: Features) -> Offer:
        """Return the poolings of the model, given the features of one image; raise ValueError if it has none."""

    def pool(self, features: Features, name: PoolingName) -> torch.Tensor:
        """Pool float32 features to float32 [B, D], or [B, T, D] for tokens."""


Loaded = tuple[Tower, dict[str, Any]]
"""A model and its input configuration: input_size, crop_pct, crop_mode, interpolation, mean and std."""
