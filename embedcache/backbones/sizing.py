"""Making a model take images of a size."""

from collections.abc import Sequence
from typing import Any

SMALLEST, LARGEST = 32, 8192


def check_size(size: int | None) -> None:
    """Refuse a size that no model is made for, before weights are loaded or a network is probed with it.

    Raises:
        ValueError: the size is out of bounds.
    """
    if size is not None and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"the size must be {SMALLEST}..{LARGEST} pixels, however: {size} came. Choose one near the model's own, or "
            "leave it out."
        )


def check_patches(size: int, patch: Sequence[int], name: str) -> None:
    """Refuse a size that patches do not fill, where some libraries would silently drop the rest.

    Raises:
        ValueError: the size is not a multiple of the patch size.
    """
    if any(size % side for side in patch):
        raise ValueError(
            f"the size must be a multiple of the patch size, however: {name} has patches of {patch[0]} pixels and size "
            f"{size} was asked for. Nearest: {size // patch[0] * patch[0]} or {(size // patch[0] + 1) * patch[0]}."
        )


def set_size(model: Any, size: int, name: str) -> None:
    """Make a timm model take images of size x size pixels, resampling position embeddings where it has some.

    Raises:
        ValueError: the size is not a multiple of the patch size.
    """
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", None)
    if patch is not None:
        check_patches(size, patch, name)
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(size, size))


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
