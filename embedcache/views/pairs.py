"""Policies that make a view of two images, whose labels share it by area."""

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from PIL import Image as Pictures
from pydantic import Field

from frostbench.embedcache.views.policy import Image, Policy, View


class CutMix(Policy):
    """A box of another image is pasted; labels share by area: Yun et al., ICCV 2019, algorithm A1."""

    kind: Literal["cutmix"] = "cutmix"
    alpha: float = Field(default=1.0, gt=0, le=10)
    """Both parameters of the Beta distribution of the share that the image keeps."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, seed: int, number: int) -> View:
        """The image with a box of the partner, which is scaled to its size."""
        rng = np.random.default_rng(seed)
        rows, columns = image.shape[:2]
        side = float(np.sqrt(1 - rng.beta(self.alpha, self.alpha)))
        top, bottom = _span(rows, side, rng)
        left, right = _span(columns, side, rng)
        mask = np.zeros((rows, columns), bool)
        mask[top:bottom, left:right] = True
        return pasted(image, partner, mask)


class SuperpixelMix(Policy):
    """Superpixels of another image are pasted, so that cuts follow its edges; labels share by area.

    CutMix along superpixels as in Dornaika et al., "LGCOAMix", IEEE TIP 2024, without its attention and its losses;
    superpixels by SLIC (Achanta et al., TPAMI 2012).
    """

    kind: Literal["superpixel_mix"] = "superpixel_mix"
    segments: int = Field(default=40, ge=2, le=1000)
    """How many superpixels an image is cut into, about."""
    alpha: float = Field(default=1.0, gt=0, le=10)
    """Both parameters of the Beta distribution of the share that the image keeps."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, seed: int, number: int) -> View:
        """The image with superpixels of the partner, drawn at random, as many as come nearest to its share.

        Raises:
            ModuleNotFoundError: scikit-image is not installed.
        """
        slic = _slic()
        rng = np.random.default_rng(seed)
        other = scaled(partner, image.shape[0], image.shape[1])
        found = slic(other, n_segments=self.segments, start_label=0)
        sizes = np.bincount(found.ravel())
        order = rng.permutation(len(sizes))
        covered = np.concatenate([[0], np.cumsum(sizes[order])])
        wanted = (1 - rng.beta(self.alpha, self.alpha)) * found.size
        taken = order[: int(np.argmin(np.abs(covered - wanted)))]
        return pasted(image, other, np.isin(found, taken))


def _slic() -> Callable[..., np.ndarray]:
    try:
        from skimage.segmentation import slic
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "superpixels need scikit-image, however: it is not installed. Run: pip install 'frostbench[superpixels]'"
        ) from error
    found: Callable[..., np.ndarray] = slic
    return found


def pasted(image: Image, partner: Image, mask: np.ndarray) -> View:
    """The image with the partner's pixels where mask [H, W] is true, and the share that is left of the image."""
    other = scaled(partner, image.shape[0], image.shape[1])
    return View(np.where(mask[:, :, None], other, image), 1.0 - float(mask.mean()))


def scaled(image: Image, rows: int, columns: int) -> Image:
    """An image of that many rows and columns, bicubic."""
    if image.shape[:2] == (rows, columns):
        return image
    return np.array(Pictures.fromarray(image).resize((columns, rows), Pictures.Resampling.BICUBIC))


def _span(length: int, share: float, rng: np.random.Generator) -> tuple[int, int]:
    """Start and end of a stretch of that share around a random middle, cut at the borders."""
    half, middle = share * length / 2, rng.uniform(0, length)
    return round(max(0.0, middle - half)), round(min(float(length), middle + half))
