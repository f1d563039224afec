"""Feature augmentation: random changes of training vectors; evaluation never sees them."""

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.preprocess import moments
from frostbench.heads.spec import SWEPT, Spec


class Channels(NamedTuple):
    """Statistics of the training rows after preprocessing, before any augmentation; each [D]."""

    mean: Tensor
    std: Tensor


class AugmentDraw(NamedTuple):
    """The random numbers of one step; those of a part that is left out are of size 0.

    Attributes:
        channel: [N, D] uniform from -1 to 1, how far each channel's gain is from 1.
        gain: [N, 1] uniform from -1 to 1, how far the gain of the whole vector is from 1.
        noise: [N, D] standard normal.
    """

    channel: Tensor
    gain: Tensor
    noise: Tensor


def channels_of(x: Tensor) -> Channels:
    """The statistics of preprocessed training rows x [N, D], taken in float64 (ddof 0), in the dtype of x."""
    return channels_in([x])


def channels_in(pieces: Iterable[Tensor]) -> Channels:
    """As `channels_of`, of rows that come in pieces [n, D]."""
    mean, std, dtype = moments(pieces)
    return Channels(mean.to(dtype), std.to(dtype))


class FeatureAugment(Spec):
    """Change each training vector at random: channel gains about the mean, one gain for all, and Gaussian noise.

    Noise and gains are drawn anew for every sample and step. Noise on inputs is Tikhonov regularisation (Bishop,
    "Training with noise is equivalent to Tikhonov regularization", Neural Computation 1995). Bär et al., "Frozen
    feature augmentation for few-shot image classification", CVPR 2024, augment frozen features as images are.
    """

    group: ClassVar[str] = "Rows"
    """Title of the group in which forms show it."""
    kind: Literal["feature_augment"] = "feature_augment"
    noise: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="Feature noise (standard deviation)")
    """Standard deviation of Gaussian noise, relative to each channel's own over the training rows; 0 adds none."""
    channel_scale: float = Field(
        default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="Gain per channel (half-width)"
    )
    """Half-width v of a gain from 1 - v to 1 + v for each channel, about its mean over the training rows."""
    gain: float = Field(default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="Gain per vector (half-width)")
    """Half-width v of one gain from 1 - v to 1 + v for all channels of a vector, about 0."""

    @property
    def is_neutral(self) -> bool:
        """Whether vectors stay as they are."""
        return self.noise == self.channel_scale == self.gain == 0

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> AugmentDraw:
        """The random numbers for vectors of shape [N, D], on the generator's device; a part at 0 draws nothing."""
        rows, _ = x_shape
        device = generator.device
        channel = gain = noise = torch.empty(0, device=device, dtype=dtype)
        if self.channel_scale > 0:
            channel = 2 * torch.rand(x_shape, generator=generator, device=device, dtype=dtype) - 1
        if self.gain > 0:
            gain = 2 * torch.rand((rows, 1), generator=generator, device=device, dtype=dtype) - 1
        if self.noise > 0:
            noise = torch.randn(x_shape, generator=generator, device=device, dtype=dtype)
        return AugmentDraw(channel, gain, noise)

    def __call__(self, x: Tensor, channels: Channels, draw: AugmentDraw) -> Tensor:
        """Augmented vectors [N, D] of preprocessed training vectors x [N, D]; parts that were not drawn are skipped."""
        if len(draw.channel) > 0:
            x = channels.mean + (x - channels.mean) * (1 + self.channel_scale * draw.channel)
        if len(draw.gain) > 0:
            x = x * (1 + self.gain * draw.gain)
        if len(draw.noise) > 0:
            x = x + self.noise * channels.std * draw.noise
        return x
