"""One or more backbones that embed each decoded image together, so that its file is read and decoded once."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import Protocol

import numpy as np
import torch

from frostbench.embedcache.backbones.backbone import NotFiniteError
from frostbench.embedcache.extraction.events import Embedder
from frostbench.embedcache.recipe import Recipe

Prepared = tuple[torch.Tensor, ...]
"""An image as each way of preparing wants it, uint8 [3, S, S]; sizes may differ."""


class Alteration(Protocol):
    """What is done to decoded images before they are embedded; `frostbench.embedcache.views` makes views of them so."""

    @property
    def text(self) -> str:
        """How a recipe states it."""

    def check(self, name: str, sha256: bytes) -> None:
        """Refuse the item of that id where its file does not have the bytes that it shall have.

        Raises:
            DecodeError: it has others.
        """

    def __call__(self, name: str, image: np.ndarray) -> np.ndarray:
        """The image, uint8 [H, W, 3], that is embedded for the item of that id; called from many threads."""


class BackboneGroup:
    """Backbones by prefix. The columns of a single one are named by its poolings, of several `PREFIX.POOLING`.

    Backbones that resize and crop alike share the prepared image. Where a batch does not fit into the device's memory
    it is halved until it does, and stays so for that backbone. A lock for `using` is held while they embed, for an
    alteration that asks one of them from another thread.

    Attributes:
        members: the backbones by prefix.
        alteration: what is done to decoded images first; None embeds them as they are.

    Raises:
        ValueError: there are none, or they decode in different ways.
    """

    def __init__(
        self,
        members: Mapping[str, Embedder],
        alteration: Alteration | None = None,
        using: "threading.Lock | None" = None,
    ) -> None:
        if not members:
            raise ValueError("images are embedded by at least one backbone, however: none came. Name one.")
        self.members, self.alteration = MappingProxyType(dict(members)), alteration
        self._using = using
        _check_decoding({prefix: _recipe_of(one) for prefix, one in members.items()})
        keys = {prefix: _preparation(_recipe_of(one)) for prefix, one in members.items()}
        ways = list(dict.fromkeys(keys.values()))
        self._way = {prefix: ways.index(key) for prefix, key in keys.items()}
        self._preparing = [next(one for prefix, one in members.items() if keys[prefix] == way) for way in ways]
        self._at_once: dict[str, int] = {}

    @property
    def is_shared(self) -> bool:
        """Whether something else asks a backbone meanwhile."""
        return self._using is not None

    def column(self, prefix: str, pooling: str) -> str:
        """The name of a member's column."""
        return pooling if len(self.members) == 1 else f"{prefix}.{pooling}"

    @property
    def recipes(self) -> dict[str, Recipe]:
        """The recipe of each column."""
        view = {} if self.alteration is None else {"view": self.alteration.text}
        return {
            self.column(prefix, name): recipe.model_copy(update=view)
            for prefix, one in self.members.items()
            for name, recipe in one.recipes.items()
        }

    @property
    def dims(self) -> dict[str, int]:
        """The vector length of each column."""
        return {self.column(p, name): dim for p, one in self.members.items() for name, dim in one.dims.items()}

    @property
    def tokens(self) -> dict[str, int]:
        """How many tokens each image has in a column of tokens; other columns are absent."""
        return {self.column(p, name): count for p, one in self.members.items() for name, count in one.tokens.items()}

    @property
    def provenance(self) -> dict[str, str]:
        """Library versions and devices."""
        return {key: value for one in self.members.values() for key, value in one.provenance.items()}

    @property
    def batch(self) -> int:
        """How many images at once suit the most demanding member."""
        return min(one.batch for one in self.members.values())

    @property
    def background(self) -> tuple[int, int, int] | None:
        """The RGB colour on which transparent pixels are composited; None where nobody knows."""
        return _recipe_of(next(iter(self.members.values()))).alpha_background

    @property
    def intensity_range(self) -> tuple[float, float] | None:
        """The grey values of images of more than 8 bits that become 0 and 255; None takes all 16 bits."""
        return _recipe_of(next(iter(self.members.values()))).intensity_range

    def prepare(self, image: np.ndarray) -> Prepared:
        """Resize and crop a decoded image uint8 [H, W, 3] in each way that a member asks for; safe in many threads."""
        return tuple(one.prepare(image) for one in self._preparing)

    def embed(self, batch: Sequence[Prepared]) -> dict[str, torch.Tensor]:
        """Embed prepared images, B of them: float32 [B, D] by column, or [B, T, D] of a column of tokens.

        Raises:
            NotFiniteError: a backbone gave NaN or infinity; names the rows.
            ValueError: the device's memory does not suffice for a single image.
        """
        stacked = [torch.stack(images) for images in zip(*batch, strict=True)]
        found = {}
        with self._using or nullcontext():
            for prefix, member in self.members.items():
                for pooling, vectors in self._embed_by(prefix, member, stacked[self._way[prefix]]).items():
                    found[self.column(prefix, pooling)] = vectors
        return found

    def _embed_by(self, prefix: str, member: Embedder, images: torch.Tensor) -> Mapping[str, torch.Tensor]:
        while True:
            size = min(self._at_once.get(prefix, len(images)), len(images))
            try:
                return _in_parts(member, images, size)
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise ValueError(
                        f"the device's memory must suffice for one image, however: {_recipe_of(member).model} at "
                        f"{images.shape[-1]} pixels does not fit. Choose a smaller size or model, or device cpu."
                    ) from error
                self._at_once[prefix] = size // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def backbone_group(backbones: "Embedder | Mapping[str, Embedder] | BackboneGroup") -> BackboneGroup:
    """A single backbone, or several by prefix, as extraction takes them."""
    if isinstance(backbones, BackboneGroup):
        return backbones
    return BackboneGroup(backbones if isinstance(backbones, Mapping) else {"": backbones})


def _in_parts(member: Embedder, images: torch.Tensor, size: int) -> Mapping[str, torch.Tensor]:
    """Embed so many images at a time; rows that are not finite are counted from the first image."""
    if size == len(images):
        return member.embed(images)
    found, wrong = [], dict[int, str]()
    for start in range(0, len(images), size):
        try:
            found.append(member.embed(images[start : start + size]))
        except NotFiniteError as error:
            if not error.rows:
                raise
            wrong |= {start + row: str(error) for row in error.rows}
    if wrong:
        raise NotFiniteError(next(iter(wrong.values())), sorted(wrong))
    return {name: torch.cat([part[name] for part in found]) for name in found[0]}


def _check_decoding(recipes: Mapping[str, Recipe]) -> None:
    for what, field in (
        ("background for transparent pixels", "alpha_background"),
        ("intensity range for pixels of more than 8 bits", "intensity_range"),
    ):
        found = {prefix: getattr(recipe, field) for prefix, recipe in recipes.items()}
        if len(set(found.values())) > 1:
            raise ValueError(
                f"backbones that share a decoded image need one {what}, however: {found} came. Embed them into caches "
                "of their own, or give them the same."
            )


def _recipe_of(member: Embedder) -> Recipe:
    """The recipe of a member's first column: all its columns share how images are prepared."""
    return next(iter(member.recipes.values()))


def _preparation(recipe: Recipe) -> tuple[object, ...]:
    """What of a recipe decides how an image is resized and cropped; a border is filled with the mean."""
    border = recipe.mean if recipe.crop == "border" else None
    return recipe.size, recipe.resize, recipe.crop, recipe.interpolation, recipe.resizer, border
