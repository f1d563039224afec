"""Checking and setting the input size of a model."""

from collections.abc import Sequence
from typing import Any

SMALLEST, LARGEST = 32, 8192


def check_size(size: int | None) -> None:
    """Raise ValueError for a size out of bounds, before weights are loaded or the model is run."""
    if size is not None and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"the size must be {SMALLEST}..{LARGEST} pixels, got {size}. Choose one near the model's own, or leave it "
            "out."
        )


def check_patches(size: int, patch: Sequence[int], name: str) -> None:
    """Raise ValueError unless size is a multiple of the patch size; some libraries silently drop partial patches."""
    if any(size % side for side in patch):
        raise ValueError(
            f"the size must be a multiple of the patch size, got {size}, but {name} has patches of {patch[0]} pixels. "
            f"Nearest: {size // patch[0] * patch[0]} or {(size // patch[0] + 1) * patch[0]}."
        )


def set_size(model: Any, size: int, name: str) -> None:
    """Set the input size of a timm model, resampling position embeddings if it has any.

    Raises:
        ValueError: the size is not a multiple of the patch size.
    """
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", None)
    if patch is not None:
        check_patches(size, patch, name)
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(size, size))


def first_line(error: BaseException) -> str:
    """Return the first line of an error message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
