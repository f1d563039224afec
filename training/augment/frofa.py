"""Frozen feature augmentation: scale a vector to 0..1, change it like grey values of an image, and scale it back.

Bär et al., "Frozen feature augmentation for few-shot image classification", CVPR 2024, augment the patch
tokens of an image before attention pooling. A pooled vector has no tokens, so the range is that of the vector itself,
or of each channel over the training rows. The augmentation acts on rescaled cached vectors, before standardisation.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier

OUTSIDE = 0.001
"""Share of the training rows left below a channel's range, and the same share above it."""


class Ranges(NamedTuple):
    """Low and high end [D] of each channel over the training rows."""

    low: Tensor
    high: Tensor


class FrofaDraw(NamedTuple):
    """Random numbers of one step.

    Attributes:
        coin: [N, 1] uniform from 0 to 1; a row is changed if its number is below the probability.
        amount: [N, 1], or [N, D] if drawn per channel: uniform from -1 to 1, or an integer number of bits.
    """

    coin: Tensor
    amount: Tensor


def ranges_of(x: Tensor) -> Ranges:
    """Return the channel ranges of training rows x [N, D] before augmentation, outliers excluded."""
    return ranges_in([x], len(x))


def ranges_in(pieces: Iterable[Tensor], rows: int) -> Ranges:
    """Compute `ranges_of` from pieces [n, D] of the rows, keeping only values that could be an end of a range."""
    kept = 1 + int(OUTSIDE * (rows - 1))
    low = high = torch.empty(0)
    for i, piece in enumerate(pieces):
        both = (torch.cat([low, piece]), torch.cat([high, piece])) if i else (piece, piece)
        most = min(kept, len(both[0]))
        low = both[0].topk(most, dim=0, largest=False).values
        high = both[1].topk(most, dim=0).values
    return Ranges(low.amax(0), high.amin(0))


class NoFrofa(Spec):
    """No frozen-feature augmentation."""

    kind: Literal["none"] = "none"


class _Operation(Spec):
    """Options and draws that the operations share."""

    tier: ClassVar[Tier] = "experimental"
    kind: str
    probability: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: share of vectors changed"
    )
    """Share of the training vectors that are changed in each step."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """Draw random numbers for vectors of shape [N, D] on the generator's device."""
        return _uniform((x_shape[0], 1), generator, dtype)


class Brightness(_Operation):
    """Shift all channels of a vector by one random fraction of its range, and clip to that range."""

    kind: Literal["brightness"] = "brightness"
    width: float = Field(default=0.1, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: brightness shift (half-width)")
    """Shifts are drawn from -v to v, as fractions of the range; this sets v, and 0 changes nothing."""

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Change vectors x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        return _moved(x, u, (u + self.width * draw.amount).clamp(0, 1), span, draw.coin < self.probability)


class ChannelBrightness(_Operation):
    """Shift each channel by a random fraction of its range over the training rows, and clip to that range.

    The paper's c2FroFA takes the range of a channel over the tokens of one image. With one vector per image, the shift
    is noise on every element, which did worse in the paper. Values that start outside the range are not pulled into it.
    """

    kind: Literal["c2_dataset"] = "c2_dataset"
    width: float = Field(
        default=0.05, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: channel brightness shift (half-width)"
    )
    """Shifts are drawn from -v to v, as fractions of the range; this sets v, and 0 changes nothing."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """Draw random numbers for vectors of shape [N, D] on the generator's device."""
        return _uniform(x_shape, generator, dtype)

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Change vectors x [N, D] within the ranges of the training rows."""
        u, span = _scaled(x, ranges.low, ranges.high)
        changed = (u + self.width * draw.amount).clamp(u.clamp(max=0), u.clamp(min=1))
        return _moved(x, u, changed, span, draw.coin < self.probability)


class Contrast(_Operation):
    """Scale the channels of a vector about their mean by one random factor, and clip to the vector's range."""

    kind: Literal["contrast"] = "contrast"
    width: float = Field(default=0.2, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: contrast factor (half-width)")
    """Factors are drawn from 1 - v to 1 + v; this sets v, and 0 changes nothing."""

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Change vectors x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        mean = u.mean(1, keepdim=True)
        changed = ((u - mean) * (1 + self.width * draw.amount) + mean).clamp(0, 1)
        return _moved(x, u, changed, span, draw.coin < self.probability)


class Posterize(_Operation):
    """Round the channels of a vector down to a random number of bits, relative to the range of the vector."""

    kind: Literal["posterize"] = "posterize"
    least_bits: int = Field(default=4, ge=1, le=8, title="FroFA: fewest bits kept")
    """Fewest bits that are kept; the number of bits is drawn from this to 8."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """Draw random numbers for vectors of shape [N, D] on the generator's device."""
        shape, device = (x_shape[0], 1), generator.device
        coin = torch.rand(shape, generator=generator, device=device, dtype=dtype)
        bits = torch.randint(self.least_bits, 9, shape, generator=generator, device=device)
        return FrofaDraw(coin, bits.to(dtype))

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Change vectors x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        step = torch.exp2(8 - draw.amount)
        changed = (255 * u / step).floor() * step / 255
        return _moved(x, u, changed, span, draw.coin < self.probability)


FrofaSpec = Annotated[NoFrofa | Brightness | ChannelBrightness | Contrast | Posterize, Field(discriminator="kind")]


def _uniform(shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
    device = generator.device
    coin = torch.rand((shape[0], 1), generator=generator, device=device, dtype=dtype)
    return FrofaDraw(coin, 2 * torch.rand(shape, generator=generator, device=device, dtype=dtype) - 1)


def _of_vector(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the minimum and maximum [N, 1] of each vector of x [N, D]."""
    return x.amin(1, keepdim=True), x.amax(1, keepdim=True)


def _scaled(x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return vectors [N, D] scaled so that their range is 0..1, and its width; a range of width 0 gives 0."""
    span = high - low
    return (x - low) / torch.where(span > 0, span, 1), span


def _moved(x: Tensor, u: Tensor, changed: Tensor, span: Tensor, chosen: Tensor) -> Tensor:
    """Move the chosen [N, 1] vectors of x [N, D] from u to changed, both [N, D] and scaled as by `_scaled`."""
    return torch.where(chosen, x + (changed - u) * span, x)
