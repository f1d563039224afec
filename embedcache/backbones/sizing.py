"""Making a model take images of a size, and asking what it answers."""

from typing import Any

import torch
from torch import nn

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


def set_size(model: Any, size: int, name: str) -> None:
    """Make a model take images of size x size pixels, resampling position embeddings where it has some.

    Raises:
        ValueError: the size is not a multiple of the patch size.
    """
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", None)
    if patch is not None and any(size % side for side in patch):
        raise ValueError(
            f"the size must be a multiple of the patch size, however: {name} has patches of {patch[0]} pixels and size "
            f"{size} was asked for. Nearest: {size // patch[0] * patch[0]} or {(size // patch[0] + 1) * patch[0]}."
        )
    if hasattr(model, "set_input_size"):
        model.set_input_size(img_size=(size, size))


def probe(model: nn.Module, size: int, name: str) -> torch.Tensor:
    """The model's features of one black image, [1, T, D], [1, C, H, W] or [1, H, W, C].

    Raises:
        ValueError: the model cannot take this size.
    """
    image = torch.zeros(1, 3, size, size, device=next(model.parameters()).device)
    try:
        with torch.inference_mode():
            features: torch.Tensor = model.forward_features(image)  # type: ignore[operator]
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"the model must take colour images of {size} x {size} pixels, however: {name} says: {first_line(error)} "
            "Choose another size."
        ) from error
    return features


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
