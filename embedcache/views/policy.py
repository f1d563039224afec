"""What every view policy is: named settings that make a view of a decoded image."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import BaseModel

from frostbench.embedcache.config import SETTINGS

Image = np.ndarray
"""Decoded pixels, uint8 [H, W, 3]."""


@dataclass(frozen=True)
class View:
    """A view of an image.

    Attributes:
        image: uint8 [H, W, 3].
        share: of the label that is the image's own, 0..1; the partner's label has the rest.
    """

    image: Image
    share: float = 1.0


class Policy(BaseModel):
    """Settings of a policy; the same settings, seed and images give the same view, with any number of threads."""

    model_config = SETTINGS

    needs_partner: ClassVar[bool] = False
    """Whether a view is made of two images."""
    is_fixed: ClassVar[bool] = False
    """Whether nothing is drawn at random, so that `views` says how many different views there are."""

    @property
    def text(self) -> str:
        """The policy and all its settings as a recipe states them."""
        fields: Mapping[str, object] = self.model_dump(mode="json")
        return f"{fields['kind']}({', '.join(f'{k}={v}' for k, v in fields.items() if k != 'kind')})"
