"""Base class of view policies: settings that determine how a view of a decoded image is made."""

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
    """View of an image.

    Attributes:
        image: pixels, uint8 [H, W, 3].
        share: share of the image's own label, 0..1; the partner's label has the rest.
    """

    image: Image
    share: float = 1.0


class Policy(BaseModel):
    """Settings of a policy; equal settings, seed and images give equal views, with any number of threads."""

    model_config = SETTINGS

    needs_partner: ClassVar[bool] = False
    """Whether a view is made from two images."""
    is_fixed: ClassVar[bool] = False
    """Whether views are deterministic, so that their number is limited to `views`."""

    @property
    def text(self) -> str:
        """Name and settings in the form stated in a recipe."""
        fields: Mapping[str, object] = self.model_dump(mode="json")
        return f"{fields['kind']}({', '.join(f'{k}={v}' for k, v in fields.items() if k != 'kind')})"
