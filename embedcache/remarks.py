"""Remarks about decoded images, counted over many images and worded for the user."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from frostbench.embedcache.counting import things

SENSOR_BITS = (8, 10, 12, 14)
"""Common bit depths of sensor values that are stored in 16 bits."""


@dataclass(frozen=True)
class Remarks:
    """Counts of images by remark.

    Attributes:
        grey: images with 16-bit grey values.
        narrow: images among them that keep fewer than 64 of 256 grey levels because no range was stated.
        largest: largest value in the narrow images.
        narrow_colour: images with 16-bit colour that keep so few levels.
        pages: images whose file holds further pages or frames.
    """

    grey: int = 0
    narrow: int = 0
    largest: int = 0
    narrow_colour: int = 0
    pages: int = 0

    def __add__(self, other: "Remarks") -> "Remarks":
        return Remarks(
            self.grey + other.grey,
            self.narrow + other.narrow,
            max(self.largest, other.largest),
            self.narrow_colour + other.narrow_colour,
            self.pages + other.pages,
        )

    def sentences(self) -> list[str]:
        """Return a sentence for each kind of remark that occurred."""
        sentences = []
        if self.narrow:
            sentences.append(
                f"{self.narrow} of {self.grey} images with 16-bit grey values "
                f"{'uses' if self.narrow == 1 else 'use'} a small part of the range (largest value {self.largest}), so "
                f"fewer than 64 of 256 grey levels are left. {self._advice()}"
            )
        if self.narrow_colour:
            sentences.append(
                f"{things(self.narrow_colour, 'image with 16-bit colours uses', 'images with 16-bit colours use')} a "
                "small part of the range, so fewer than 64 of 256 levels are left. Rescale such images to 8 bits by "
                "their true range."
            )
        if self.pages:
            sentences.append(
                f"{things(self.pages, 'file holds', 'files hold')} several pages or frames, of which only the first is "
                "used. Save the others as separate files to use them."
            )
        return sentences

    def _advice(self) -> str:
        bits = next((bits for bits in SENSOR_BITS if self.largest < 2**bits), None)
        if bits is None:
            return "Embed with --intensity-range LOW:HIGH, the values of black and white."
        return f"If these are {bits}-bit values, embed with --intensity-range 0:{2**bits - 1}."


NOTHING = Remarks()


def added(remarks: Iterable[Remarks]) -> Remarks:
    """Return the sum of all counts.

    >>> added([Remarks(pages=1), Remarks(pages=2)]).pages
    3
    """
    return reduce(Remarks.__add__, remarks, NOTHING)
