"""Frozen feature augmentation: a vector is scaled to 0..1, changed as grey values of an image are, and scaled back.

Bär et al., "Frozen feature augmentation for few-shot image classification", CVPR 2024, do so with the patch tokens of
an image in front of attention pooling. One pooled vector has no tokens, so its range is that of the vector itself, or
that of each channel over the training rows. It acts on cached vectors, before they are standardised.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier

OUTSIDE = 0.001
"""Share of the training rows below the low end of a channel's range, and above its high end."""


class Ranges(NamedTuple):
    """Low and high end of each channel over the training rows, each [D]."""

    low: Tensor
    high: Tensor


class FrofaDraw(NamedTuple):
    """The random numbers of one step.

    Attributes:
        coin: [N, 1] uniform from 0 to 1; a row is changed where it is below the probability.
        amount: [N, 1], or [N, D] where channels differ: uniform from -1 to 1, or a whole number of bits.
    """

    coin: Tensor
    amount: Tensor


def ranges_of(x: Tensor) -> Ranges:
    """The ranges of training rows x [N, D] as they go into the augmentation, without the outermost rows."""
    return ranges_in([x], len(x))


def ranges_in(pieces: Iterable[Tensor], rows: int) -> Ranges:
    """As `ranges_of`, of that many rows that come in pieces [n, D]; only values that may be an end are remembered."""
    kept = 1 + int(OUTSIDE * (rows - 1))
    low = high = torch.empty(0)
    for place, piece in enumerate(pieces):
        both = (torch.cat([low, piece]), torch.cat([high, piece])) if place else (piece, piece)
        most = min(kept, len(both[0]))
        low = both[0].topk(most, dim=0, largest=False).values
        high = both[1].topk(most, dim=0).values
    return Ranges(low.amax(0), high.amin(0))


class NoFrofa(Spec):
    """Vectors stay as they are."""

    kind: Literal["none"] = "none"


class Brightness(Spec):
    """Shift all channels of a vector by one random share of its range, and clip to that range."""

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["brightness"] = "brightness"
    probability: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: share of vectors changed"
    )
    """Share of the vectors that are changed."""
    width: float = Field(default=0.1, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: brightness shift (half-width)")
    """Half-width v of the shift, from -v to v; 0 changes nothing."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """The random numbers for vectors of shape [N, D], on the generator's device."""
        return _uniform((x_shape[0], 1), generator, dtype)

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Changed vectors [N, D] of x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        return _moved(x, u, (u + self.width * draw.amount).clamp(0, 1), span, draw.coin < self.probability)


class ChannelBrightness(Spec):
    """Shift each channel by its own random share of its range over the training rows, and clip to that range.

    The paper's c2FroFA takes the range of a channel over the tokens of one image. With one vector an image this is
    noise of every element, a form that did worse there. Values that lie outside their range are not drawn into it.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["c2_dataset"] = "c2_dataset"
    probability: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: share of vectors changed"
    )
    """Share of the vectors that are changed."""
    width: float = Field(
        default=0.05, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: channel brightness shift (half-width)"
    )
    """Half-width v of the shift, from -v to v; 0 changes nothing."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """The random numbers for vectors of shape [N, D], on the generator's device."""
        return _uniform(x_shape, generator, dtype)

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Changed vectors [N, D] of x [N, D] for the ranges of the training rows."""
        u, span = _scaled(x, ranges.low, ranges.high)
        changed = (u + self.width * draw.amount).clamp(u.clamp(max=0), u.clamp(min=1))
        return _moved(x, u, changed, span, draw.coin < self.probability)


class Contrast(Spec):
    """Scale the channels of a vector about their mean by one random factor, and clip to the vector's range."""

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["contrast"] = "contrast"
    probability: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: share of vectors changed"
    )
    """Share of the vectors that are changed."""
    width: float = Field(default=0.2, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: contrast factor (half-width)")
    """Half-width v of the factor, from 1 - v to 1 + v; 0 changes nothing."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """The random numbers for vectors of shape [N, D], on the generator's device."""
        return _uniform((x_shape[0], 1), generator, dtype)

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Changed vectors [N, D] of x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        mean = u.mean(1, keepdim=True)
        changed = ((u - mean) * (1 + self.width * draw.amount) + mean).clamp(0, 1)
        return _moved(x, u, changed, span, draw.coin < self.probability)


class Posterize(Spec):
    """Round the channels of a vector down to a random number of bits of its range."""

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["posterize"] = "posterize"
    probability: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="FroFA: share of vectors changed"
    )
    """Share of the vectors that are changed."""
    least_bits: int = Field(default=4, ge=1, le=8, title="FroFA: fewest bits kept")
    """Fewest bits that are kept; the number is drawn from here to 8."""

    def draw(self, x_shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
        """The random numbers for vectors of shape [N, D], on the generator's device."""
        shape, device = (x_shape[0], 1), generator.device
        coin = torch.rand(shape, generator=generator, device=device, dtype=dtype)
        bits = torch.randint(self.least_bits, 9, shape, generator=generator, device=device)
        return FrofaDraw(coin, bits.to(dtype))

    def __call__(self, x: Tensor, ranges: Ranges, draw: FrofaDraw) -> Tensor:
        """Changed vectors [N, D] of x [N, D]; ranges are not used."""
        u, span = _scaled(x, *_of_vector(x))
        step = torch.exp2(8 - draw.amount)
        changed = (255 * u / step).floor() * step / 255
        return _moved(x, u, changed, span, draw.coin < self.probability)


FrofaSpec = Annotated[NoFrofa | Brightness | ChannelBrightness | Contrast | Posterize, Field(discriminator="kind")]


def _uniform(shape: tuple[int, int], generator: torch.Generator, dtype: torch.dtype) -> FrofaDraw:
    """A coin for each row, and amounts of a shape from -1 to 1."""
    device = generator.device
    coin = torch.rand((shape[0], 1), generator=generator, device=device, dtype=dtype)
    return FrofaDraw(coin, 2 * torch.rand(shape, generator=generator, device=device, dtype=dtype) - 1)


def _of_vector(x: Tensor) -> tuple[Tensor, Tensor]:
    """Least and greatest channel [N, 1] of each vector of x [N, D]."""
    return x.amin(1, keepdim=True), x.amax(1, keepdim=True)


def _scaled(x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors [N, D] as shares of their range, and the width of the range; a range of no width gives 0."""
    span = high - low
    return (x - low) / torch.where(span > 0, span, 1), span


def _moved(x: Tensor, u: Tensor, changed: Tensor, span: Tensor, chosen: Tensor) -> Tensor:
    """Vectors x [N, D] with the chosen ones [N, 1] moved from u to changed, both shares [N, D] of their span."""
    return torch.where(chosen, x + (changed - u) * span, x)
