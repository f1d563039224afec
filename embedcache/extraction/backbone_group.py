"""Groups of backbones that share each decoded image, so that its file is read and decoded once."""

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
"""An image in each preparation that the group needs, uint8 [3, S, S]; sizes may differ."""


class Alteration(Protocol):
    """Change of decoded images before they are embedded, such as the views of `frostbench.embedcache.views`."""

    @property
    def text(self) -> str:
        """Text that states the alteration in a recipe."""

    def check(self, name: str, sha256: bytes) -> None:
        """Raise DecodeError if the file of the item with this id does not have the expected bytes."""

    def __call__(self, name: str, image: np.ndarray) -> np.ndarray:
        """Return the image uint8 [H, W, 3] to embed for the item with this id; called from many threads."""


class BackboneGroup:
    """Backbones by prefix; columns are named `POOLING` for a single backbone and `PREFIX.POOLING` for several.

    Backbones with the same resize and crop share the prepared image. If a backbone's batch does not fit into the
    device's memory, its batch size is halved until it does. The lock `using`, if given, is held while the backbones
    embed, so that an alteration can use one of them from another thread.

    Attributes:
        members: backbones by prefix.
        alteration: change of decoded images before they are embedded, or None.

    Raises:
        ValueError: there are no backbones, or their decoding differs.
    """

    def __init__(
        self,
        members: Mapping[str, Embedder],
        alteration: Alteration | None = None,
        using: "threading.Lock | None" = None,
    ) -> None:
        if not members:
            raise ValueError("at least one backbone is required, got none. Name one with --backbone.")
        self.members, self.alteration = MappingProxyType(dict(members)), alteration
        self._using = using
        recipes = {prefix: _recipe_of(member) for prefix, member in members.items()}
        _check_decoding(recipes)
        keys = {prefix: _preparation(recipe) for prefix, recipe in recipes.items()}
        preparers = {key: members[prefix] for prefix, key in reversed(keys.items())}
        order = list(dict.fromkeys(keys.values()))
        self._preparation = {prefix: order.index(key) for prefix, key in keys.items()}
        self._preparers = [preparers[key] for key in order]
        self._batch_limits: dict[str, int] = {}

    @property
    def is_shared(self) -> bool:
        """Whether another thread uses a backbone at the same time."""
        return self._using is not None

    def column(self, prefix: str, pooling: str) -> str:
        """Return the name of a member's column."""
        return pooling if len(self.members) == 1 else f"{prefix}.{pooling}"

    @property
    def recipes(self) -> dict[str, Recipe]:
        """Recipe of each column."""
        view = {} if self.alteration is None else {"view": self.alteration.text}
        return {
            self.column(prefix, name): recipe.model_copy(update=view)
            for prefix, member in self.members.items()
            for name, recipe in member.recipes.items()
        }

    @property
    def dims(self) -> dict[str, int]:
        """Vector length of each column."""
        return {self.column(p, name): dim for p, member in self.members.items() for name, dim in member.dims.items()}

    @property
    def tokens(self) -> dict[str, int]:
        """Number of tokens per image for each column of tokens; other columns are absent."""
        return {self.column(p, name): n for p, member in self.members.items() for name, n in member.tokens.items()}

    @property
    def provenance(self) -> dict[str, str]:
        """Library versions and devices."""
        return {key: value for member in self.members.values() for key, value in member.provenance.items()}

    @property
    def batch(self) -> int:
        """Default batch size, the smallest of the members."""
        return min(member.batch for member in self.members.values())

    @property
    def background(self) -> tuple[int, int, int] | None:
        """RGB colour on which transparent pixels are composited, or None if unknown."""
        return _recipe_of(next(iter(self.members.values()))).alpha_background

    @property
    def intensity_range(self) -> tuple[float, float] | None:
        """Grey values of images of more than 8 bits that become 0 and 255; None uses all 16 bits."""
        return _recipe_of(next(iter(self.members.values()))).intensity_range

    def prepare(self, image: np.ndarray) -> Prepared:
        """Resize and crop a decoded image uint8 [H, W, 3] in each preparation of the members; thread-safe."""
        return tuple(member.prepare(image) for member in self._preparers)

    def embed(self, batch: Sequence[Prepared]) -> dict[str, torch.Tensor]:
        """Embed B prepared images to float32 [B, D] by column, or [B, T, D] for a column of tokens.

        Raises:
            NotFiniteError: the output of a backbone contains NaN or infinity; `rows` are these images' indices.
            ValueError: a single image does not fit into the device's memory.
        """
        stacked = [torch.stack(images) for images in zip(*batch, strict=True)]
        columns = {}
        with self._using or nullcontext():
            for prefix, member in self.members.items():
                for pooling, vectors in self._embed_by(prefix, member, stacked[self._preparation[prefix]]).items():
                    columns[self.column(prefix, pooling)] = vectors
        return columns

    def _embed_by(self, prefix: str, member: Embedder, images: torch.Tensor) -> Mapping[str, torch.Tensor]:
        while True:
            size = min(self._batch_limits.get(prefix, len(images)), len(images))
            try:
                return _in_parts(member, images, size)
            except torch.OutOfMemoryError as error:
                if size == 1:
                    raise ValueError(
                        f"one image must fit into the device's memory, but {_recipe_of(member).model} at "
                        f"{images.shape[-1]} pixels does not. Choose a smaller size or model, or device cpu."
                    ) from error
                self._batch_limits[prefix] = size // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def backbone_group(backbones: "Embedder | Mapping[str, Embedder] | BackboneGroup") -> BackboneGroup:
    """Wrap a single backbone, or several by prefix, in a group."""
    if isinstance(backbones, BackboneGroup):
        return backbones
    return BackboneGroup(backbones if isinstance(backbones, Mapping) else {"": backbones})


def _in_parts(member: Embedder, images: torch.Tensor, size: int) -> Mapping[str, torch.Tensor]:
    """Embed images in batches of `size`; the rows of a NotFiniteError are indices in `images`, not in a batch."""
    if size == len(images):
        return member.embed(images)
    parts, wrong = [], dict[int, str]()
    for start in range(0, len(images), size):
        try:
            parts.append(member.embed(images[start : start + size]))
        except NotFiniteError as error:
            if not error.rows:
                raise
            wrong |= {start + row: str(error) for row in error.rows}
    if wrong:
        raise NotFiniteError(next(iter(wrong.values())), sorted(wrong))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _check_decoding(recipes: Mapping[str, Recipe]) -> None:
    for what, field in (
        ("background for transparent pixels", "alpha_background"),
        ("intensity range for pixels of more than 8 bits", "intensity_range"),
    ):
        values = {prefix: getattr(recipe, field) for prefix, recipe in recipes.items()}
        if len(set(values.values())) > 1:
            raise ValueError(
                f"backbones that share decoded images must have the same {what}, got {values}. Embed them into "
                "separate caches, or give them the same value."
            )


def _recipe_of(member: Embedder) -> Recipe:
    """Return the recipe of a member's first column; all its columns share the preparation."""
    return next(iter(member.recipes.values()))


def _preparation(recipe: Recipe) -> tuple[object, ...]:
    """Return the fields that determine resize and crop; a border is filled with the mean."""
    border = recipe.mean if recipe.crop == "border" else None
    return recipe.size, recipe.resize, recipe.crop, recipe.interpolation, recipe.resizer, border
