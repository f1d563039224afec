"""Policies that mix two images, with label shares by area."""

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from PIL import Image as Pictures
from pydantic import Field

from frostbench.embedcache.views.policy import Image, Policy, View


class CutMix(Policy):
    """Pasting of a box of another image, with label shares by area: Yun et al., ICCV 2019, algorithm A1."""

    kind: Literal["cutmix"] = "cutmix"
    alpha: float = Field(default=1.0, gt=0, le=10)
    """Both parameters of the Beta distribution of the share that the image keeps."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, seed: int, number: int) -> View:
        """Paste a box of the partner, which is first scaled to the image's size."""
        rng = np.random.default_rng(seed)
        rows, columns = image.shape[:2]
        side = float(np.sqrt(1 - rng.beta(self.alpha, self.alpha)))
        top, bottom = _span(rows, side, rng)
        left, right = _span(columns, side, rng)
        mask = np.zeros((rows, columns), bool)
        mask[top:bottom, left:right] = True
        return pasted(image, partner, mask)


class SuperpixelMix(Policy):
    """Pasting of superpixels of another image, whose borders follow its edges, with label shares by area.

    CutMix along superpixels as in Dornaika et al., "LGCOAMix", IEEE TIP 2024, without its attention and its losses;
    superpixels by SLIC (Achanta et al., TPAMI 2012).
    """

    kind: Literal["superpixel_mix"] = "superpixel_mix"
    segments: int = Field(default=40, ge=2, le=1000)
    """Approximate number of superpixels in an image."""
    alpha: float = Field(default=1.0, gt=0, le=10)
    """Both parameters of the Beta distribution of the share that the image keeps."""
    needs_partner: ClassVar[bool] = True

    def __call__(self, image: Image, partner: Image, seed: int, number: int) -> View:
        """Paste randomly drawn superpixels of the partner, as many as get closest to its share.

        Raises:
            ModuleNotFoundError: scikit-image is not installed.
        """
        slic = _slic()
        rng = np.random.default_rng(seed)
        other = scaled(partner, image.shape[0], image.shape[1])
        segments = slic(other, n_segments=self.segments, start_label=0)
        sizes = np.bincount(segments.ravel())
        order = rng.permutation(len(sizes))
        covered = np.concatenate([[0], np.cumsum(sizes[order])])
        target = (1 - rng.beta(self.alpha, self.alpha)) * segments.size
        chosen = order[: int(np.argmin(np.abs(covered - target)))]
        return pasted(image, other, np.isin(segments, chosen))


def _slic() -> Callable[..., np.ndarray]:
    try:
        from skimage.segmentation import slic
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "superpixels require scikit-image, which is not installed. Run: pip install 'frostbench[superpixels]'"
        ) from error
    return slic  # type: ignore[no-any-return]


def pasted(image: Image, partner: Image, mask: np.ndarray) -> View:
    """Paste the partner's pixels under the mask [H, W], and return the view with the image's remaining share."""
    other = scaled(partner, image.shape[0], image.shape[1])
    return View(np.where(mask[:, :, None], other, image), 1.0 - float(mask.mean()))


def scaled(image: Image, rows: int, columns: int) -> Image:
    """Resize an image to this number of rows and columns, bicubic."""
    if image.shape[:2] == (rows, columns):
        return image
    return np.array(Pictures.fromarray(image).resize((columns, rows), Pictures.Resampling.BICUBIC))


def _span(length: int, share: float, rng: np.random.Generator) -> tuple[int, int]:
    """Return start and end of a span of this share around a random centre, clipped at the borders."""
    half, centre = share * length / 2, rng.uniform(0, length)
    return round(max(0.0, centre - half)), round(min(float(length), centre + half))
