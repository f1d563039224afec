"""What should be told of images that were decoded, counted over many of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

SENSOR_BITS = (8, 10, 12, 14)
"""Of numbers that are stored in 16 bits."""


@dataclass(frozen=True)
class Remarks:
    """Counts of images.

    Attributes:
        grey: those of 16-bit grey values.
        narrow: those of them of which fewer than 64 of 256 grey levels are left, since no range was stated.
        largest: the largest value in the narrow ones.
        narrow_colour: those of 16-bit colour of which so few levels are left.
        pages: those whose file holds further pages or frames.
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
        """What a person should know of them."""
        told = []
        if self.narrow:
            told.append(
                f"{self.narrow} of {self.grey} images with 16-bit grey values keep to a small part of their range, the "
                f"largest value is {self.largest}: fewer than 64 of 256 grey levels are left. {self._advice()}"
            )
        if self.narrow_colour:
            told.append(
                f"{self.narrow_colour} images with 16-bit colours keep to a small part of their range: fewer than 64 "
                "of 256 levels are left. Convert them to 8 bits by their true range."
            )
        if self.pages:
            told.append(
                f"{self.pages} files hold several pages or frames: the first of each was taken. Save the others as "
                "files of their own to use them."
            )
        return told

    def _advice(self) -> str:
        bits = next((bits for bits in SENSOR_BITS if self.largest < 2**bits), None)
        if bits is None:
            return "Embed with --intensity-range LOW:HIGH, the values that are to be black and white."
        return f"If these are {bits}-bit numbers, embed with --intensity-range 0:{2**bits - 1}."


NOTHING = Remarks()


def added(remarks: Iterable[Remarks]) -> Remarks:
    """All counts together.

    >>> added([Remarks(pages=1), Remarks(pages=2)]).pages
    3
    """
    return reduce(Remarks.__add__, remarks, NOTHING)
