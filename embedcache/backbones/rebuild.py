"""The backbone that a recipe describes, rebuilt for new images."""

from collections.abc import Mapping
from pathlib import Path

from embedcache.backbones import Backbone, load_backbone
from embedcache.recipe import Recipe, differences


def rebuild(recipes: Mapping[str, Recipe], *, weights: Path | None = None, device: str = "cpu") -> Backbone:
    """Load the backbone whose columns have these recipes, which differ in their pooling only.

    Args:
        recipes: column name to recipe.
        weights: file to take the weights from instead of the hub (timm only).
        device: where the model runs.

    Raises:
        ValueError: the vectors came from elsewhere, or what loads here gives other recipes; the message names the
            fields that differ.
    """
    first = next(iter(recipes.values()))
    if first.provider == "external":
        raise ValueError(
            "images are embedded by the recipe of the vectors, however: these were imported and nobody knows how they "
            f"were made ({first.model}). Embed the images with the program that made them, and import the result."
        )
    backbone = load_backbone(
        first.provider,
        first.model,
        pooling=[recipe.pooling for recipe in recipes.values()],
        size=first.size,
        weights=weights,
        device=device,
        autocast=first.autocast,
        alpha_background=first.alpha_background or (255, 255, 255),
    )
    for name, wanted in recipes.items():
        found = backbone.recipes[wanted.pooling]
        if found.hash != wanted.hash:
            told = "; ".join(f"{k}: wanted {a!r}, here {b!r}" for k, (a, b) in differences(wanted, found).items())
            raise ValueError(
                f"new vectors need the recipe {wanted.hash} of column {name!r}, however: what loads here has recipe "
                f"{found.hash} ({told}). Give the same weights, or install the versions named in the card."
            )
    return backbone
