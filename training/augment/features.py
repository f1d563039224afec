"""Feature augmentation: random changes of training vectors, never of evaluated ones."""

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.preprocess import moments
from frostbench.heads.spec import SWEPT, Spec


class Channels(NamedTuple):
    """Mean and standard deviation [D] of the training rows, preprocessed but not augmented."""

    mean: Tensor
    std: Tensor


class AugmentDraw(NamedTuple):
    """Random numbers of one step; tensors of augmentations that are off are empty.

    Attributes:
        channel: [N, D] uniform from -1 to 1: deviation of each channel's gain from 1, over the half-width.
        gain: [N, 1] uniform from -1 to 1: deviation of the vector's gain from 1, over the half-width.
        noise: [N, D] standard normal.
    """

    channel: Tensor
    gain: Tensor
    noise: Tensor


def channels_of(x: Tensor) -> Channels:
    """Compute the statistics of preprocessed training rows x [N, D] in float64 (ddof 0), returned in the dtype of x."""
    return channels_in([x])


def channels_in(pieces: Iterable[Tensor]) -> Channels:
    """Compute what `channels_of` does, from pieces [n, D] of the rows."""
    mean, std, dtype = moments(pieces)
    return Channels(mean.to(dtype), std.to(dtype))


class FeatureAugment(Spec):
    """Change each training vector at random: channel gains about the mean, one gain for the vector, and Gaussian noise.

    Each sample and step has its own noise and gains. Noise on inputs is Tikhonov regularisation (Bishop,
    "Training with noise is equivalent to Tikhonov regularization", Neural Computation 1995). Bär et al., "Frozen
    feature augmentation for few-shot image classification", CVPR 2024, apply image augmentation to frozen features.
    """

    group: ClassVar[str] = "Sampling and augmentation"
    """Title of the form group that shows it."""
    kind: Literal["feature_augment"] = "feature_augment"
    noise: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="Feature noise (standard deviation)")
    """Standard deviation of Gaussian noise, relative to that of each channel over the training rows; 0 adds none."""
    channel_scale: float = Field(
        default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="Gain per channel (half-width)"
    )
    """Each channel is scaled about its training mean by a gain drawn from 1 - v to 1 + v; this sets v."""
    gain: float = Field(default=0.0, ge=0, le=1, json_schema_extra=SWEPT, title="Gain per vector (half-width)")
    """Each vector is scaled by one gain drawn from 1 - v to 1 + v; this sets v."""

    @property
    def is_neutral(self) -> bool:
        """Whether vectors are left unchanged."""
        return self.noise == self.channel_scale == self.gain == 0

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> AugmentDraw:
        """Draw random numbers for vectors of shape [N, D] on the generator's device; options at 0 draw nothing."""
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
        """Augment preprocessed training vectors x [N, D], skipping the steps whose numbers were not drawn."""
        if len(draw.channel) > 0:
            x = channels.mean + (x - channels.mean) * (1 + self.channel_scale * draw.channel)
        if len(draw.gain) > 0:
            x = x * (1 + self.gain * draw.gain)
        if len(draw.noise) > 0:
            x = x + self.noise * channels.std * draw.noise
        return x
