"""Feature augmentation: random changes of training vectors; evaluation never sees them."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import Spec


@dataclass(frozen=True)
class Channels:
    """Statistics of the training rows after preprocessing, before any augmentation; each [D]."""

    mean: Tensor
    std: Tensor


def channels_of(x: Tensor) -> Channels:
    """The statistics of preprocessed training rows x [N, D], taken in float64 (ddof 0), in the dtype of x."""
    exact = x.double()
    return Channels(exact.mean(0).to(x.dtype), exact.std(0, correction=0).to(x.dtype))


class FeatureAugment(Spec):
    """Change each training vector at random: channel gains about the mean, one gain for all, and Gaussian noise.

    Noise and gains are drawn anew for every sample and step. Noise on inputs is Tikhonov regularisation (Bishop,
    "Training with noise is equivalent to Tikhonov regularization", Neural Computation 1995); augmenting frozen
    features is from Bär et al., "Frozen feature augmentation for few-shot image classification", CVPR 2024, whose own
    operations need the patch tokens.
    """

    kind: Literal["feature_augment"] = "feature_augment"
    noise: float = Field(default=0.0, ge=0, le=10)
    """Standard deviation of Gaussian noise, in units of each channel's own over the training rows; 0 adds none."""
    channel_scale: float = Field(default=0.0, ge=0, le=1)
    """Half-width v of a gain from 1 - v to 1 + v for each channel, about its mean over the training rows."""
    gain: float = Field(default=0.0, ge=0, le=1)
    """Half-width v of one gain from 1 - v to 1 + v for all channels of a vector, about 0."""

    @property
    def is_neutral(self) -> bool:
        """Whether vectors stay as they are."""
        return self.noise == self.channel_scale == self.gain == 0

    def __call__(self, x: Tensor, channels: Channels, generator: torch.Generator) -> Tensor:
        """Augmented vectors [N, D] of preprocessed training vectors x [N, D]; at 0 nothing is drawn."""
        if self.channel_scale > 0:
            x = channels.mean + (x - channels.mean) * _gains(x.shape, self.channel_scale, x, generator)
        if self.gain > 0:
            x = x * _gains((len(x), 1), self.gain, x, generator)
        if self.noise > 0:
            normal = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
            x = x + self.noise * channels.std * normal
        return x


def _gains(shape: tuple[int, ...], width: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Gains of a shape, uniform from 1 - width to 1 + width."""
    drawn = torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype)
    return 1 + width * (2 * drawn - 1)
