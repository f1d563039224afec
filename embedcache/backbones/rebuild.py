"""The backbones that recipes describe, rebuilt for new images."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.backbones.pooling import name_of
from frostbench.embedcache.backbones.preparation import of_recipe
from frostbench.embedcache.recipe import Recipe, differences

# What may differ between the columns that one model gives in one pass.
_OF_A_COLUMN = ("pooling", "layer", "final_norm", "gem_p", "output")
_NONE: Mapping[str, Path] = MappingProxyType({})


def group_recipes(recipes: Mapping[str, Recipe]) -> list[dict[str, Recipe]]:
    """The columns of each model, in the order in which they come: columns that differ in their pooling only."""
    groups: dict[str, dict[str, Recipe]] = {}
    for name, recipe in recipes.items():
        groups.setdefault(recipe.model_dump_json(exclude=set(_OF_A_COLUMN)), {})[name] = recipe
    return list(groups.values())


def rebuild(
    recipes: Mapping[str, Recipe], *, weights: Path | None = None, device: str = "cpu", compile: bool = False
) -> Backbone:
    """Load the backbone whose columns have these recipes, which differ in their pooling only.

    The view is nothing of a backbone: it embeds whatever image it is given.

    Args:
        recipes: column name to recipe; the backbone's columns have these names.
        weights: file or folder to take the weights from instead of the hub.
        device: where the model runs.
        compile: whether torch.compile makes the forward pass.

    Raises:
        ValueError: the vectors came from elsewhere, are of several models, or what loads here gives other recipes; the
            message names the fields that differ.
    """
    if len(group_recipes(recipes)) > 1:
        raise ValueError(
            f"one backbone has recipes that differ in their pooling only, however: {', '.join(recipes)} are of "
            "several. Use rebuild_all."
        )
    first = next(iter(recipes.values()))
    if first.provider == "external":
        raise ValueError(
            "images are embedded by the recipe of the vectors, however: these were imported and nobody knows how they "
            f"were made ({first.model}). Embed the images with the program that made them, and import the result."
        )
    backbone = load_backbone(
        first.provider,
        first.model,
        pooling=[name_of(recipe) for recipe in recipes.values()],
        weights=weights,
        device=device,
        autocast=first.autocast,
        alpha_background=first.alpha_background or (255, 255, 255),
        preparation=of_recipe(first),
        compile=compile,
    )
    for name, recipe in recipes.items():
        _check_same(name, recipe, backbone.recipes[name_of(recipe)].model_copy(update={"view": recipe.view}))
    return _renamed(backbone, recipes)


def _renamed(backbone: Backbone, recipes: Mapping[str, Recipe]) -> Backbone:
    """The backbone with columns of these names instead of those of their poolings."""
    own = {name: name_of(recipe) for name, recipe in recipes.items()}
    return replace(
        backbone,
        poolings={name: backbone.poolings[pooling] for name, pooling in own.items()},
        recipes=dict(recipes),
        dims={name: backbone.dims[pooling] for name, pooling in own.items()},
        tokens={name: backbone.tokens[pooling] for name, pooling in own.items() if pooling in backbone.tokens},
    )


def rebuild_all(
    recipes: Mapping[str, Recipe], *, weights: Mapping[str, Path] = _NONE, device: str = "cpu"
) -> dict[str, Backbone]:
    """Load every backbone of some columns, so that `BackboneGroup(rebuild_all(recipes))` has these columns again.

    Several backbones come by the prefix of their columns, which are named by their poolings. A single one comes under
    the empty prefix, its columns named as they are.

    Args:
        recipes: column name to recipe.
        weights: files or folders to take weights from instead of the hub, by prefix; of a single backbone the empty
            prefix will do.
        device: where the models run.

    Raises:
        ValueError: as `rebuild`, or columns of one model have several prefixes.
    """
    found: dict[str, Backbone] = {}
    groups = group_recipes(recipes)
    if len(groups) == 1:
        prefix = prefix_of(*next(iter(recipes.items())))
        return {"": rebuild(recipes, weights=weights.get(prefix, weights.get("")), device=device)}
    for group in groups:
        prefixes = {prefix_of(name, recipe) for name, recipe in group.items()}
        if len(prefixes) > 1 or prefixes & found.keys():
            raise ValueError(
                f"columns of one backbone are named PREFIX.POOLING with one prefix, however: {', '.join(recipes)} "
                "came. Rebuild them apart."
            )
        (prefix,) = prefixes
        plain = {name_of(recipe): recipe for recipe in group.values()}
        found[prefix] = rebuild(plain, weights=weights.get(prefix), device=device)
    return found


def weights_for(recipes: Mapping[str, Recipe], weights: Path | None) -> dict[str, Path]:
    """A file of weights for the one backbone of the recipes.

    Raises:
        ValueError: there are several.
    """
    if weights is None:
        return {}
    groups = group_recipes(recipes)
    if len(groups) > 1:
        raise ValueError(
            f"a file of weights belongs to one backbone, however: the head reads {list(recipes)}, which {len(groups)} "
            "backbones give. Load those weights by path when the cache is made."
        )
    return {prefix_of(*next(iter(recipes.items()))): weights}


def prefix_of(column: str, recipe: Recipe) -> str:
    """What stands before the pooling in the name of a column; empty where nothing does."""
    pooling = name_of(recipe)
    return "" if column == pooling else column.removesuffix(f".{pooling}")


def _check_same(name: str, wanted: Recipe, found: Recipe) -> None:
    if found.hash != wanted.hash:
        told = "; ".join(f"{k}: wanted {a!r}, here {b!r}" for k, (a, b) in differences(wanted, found).items())
        raise ValueError(
            f"new vectors need the recipe {wanted.hash} of column {name!r}, however: what loads here has recipe "
            f"{found.hash} ({told}). Give the same weights, or install the versions named in the card."
        )
