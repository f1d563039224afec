"""Rebuilding of backbones from recipes, to embed new images."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.backbones.pooling import name_of
from frostbench.embedcache.backbones.preparation import of_recipe
from frostbench.embedcache.recipe import Recipe, differences

# Fields that may differ between columns of one backbone.
_OF_A_COLUMN = ("pooling", "layer", "final_norm", "gem_p", "output")
_NONE: Mapping[str, Path] = MappingProxyType({})


def group_recipes(recipes: Mapping[str, Recipe]) -> list[dict[str, Recipe]]:
    """Group columns by backbone, in order of appearance; the recipes of a group differ only in the pooling."""
    groups: dict[str, dict[str, Recipe]] = {}
    for name, recipe in recipes.items():
        groups.setdefault(recipe.model_dump_json(exclude=set(_OF_A_COLUMN)), {})[name] = recipe
    return list(groups.values())


def rebuild(
    recipes: Mapping[str, Recipe], *, weights: Path | None = None, device: str = "cpu", compile: bool = False
) -> Backbone:
    """Load the backbone whose columns have these recipes, which may differ only in the pooling.

    The view in a recipe is not part of the backbone, which embeds any image that it is given.

    Args:
        recipes: column name to recipe; the backbone's columns have these names.
        weights: file or folder to load the weights from instead of the hub.
        device: device to run on.
        compile: whether to compile the forward pass with torch.compile.

    Raises:
        ValueError: the vectors were imported or belong to several backbones, or the loaded backbone has other recipes;
            the message names the fields that differ.
    """
    if len(group_recipes(recipes)) > 1:
        raise ValueError(
            f"recipes of one backbone must differ only in the pooling, but {', '.join(recipes)} belong to several "
            "backbones. Use rebuild_all."
        )
    first = next(iter(recipes.values()))
    if first.provider == "external":
        raise ValueError(
            "images must be embedded with the recipe of the vectors, but these were imported, so their recipe is "
            f"unknown (model {first.model!r}). Embed the images with the program that made the vectors, and import the "
            "result."
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
    """Return the backbone with these column names instead of those of the poolings."""
    names = {name: name_of(recipe) for name, recipe in recipes.items()}
    return replace(
        backbone,
        poolings={name: backbone.poolings[pooling] for name, pooling in names.items()},
        recipes=dict(recipes),
        dims={name: backbone.dims[pooling] for name, pooling in names.items()},
        tokens={name: backbone.tokens[pooling] for name, pooling in names.items() if pooling in backbone.tokens},
    )


def rebuild_all(
    recipes: Mapping[str, Recipe], *, weights: Mapping[str, Path] = _NONE, device: str = "cpu"
) -> dict[str, Backbone]:
    """Load the backbones of columns, so that `BackboneGroup(rebuild_all(recipes))` has the same columns.

    Several backbones are keyed by the prefix of their columns, which are then named by their poolings alone. A single
    backbone has the empty prefix and keeps the column names.

    Args:
        recipes: column name to recipe.
        weights: files or folders to load weights from instead of the hub, by prefix; for a single backbone the prefix
            may be empty.
        device: device to run on.

    Raises:
        ValueError: see `rebuild`; or columns of one backbone have several prefixes, or two backbones share one.
    """
    backbones: dict[str, Backbone] = {}
    groups = group_recipes(recipes)
    if len(groups) == 1:
        prefix = prefix_of(*next(iter(recipes.items())))
        return {"": rebuild(recipes, weights=weights.get(prefix, weights.get("")), device=device)}
    for group in groups:
        prefixes = {prefix_of(name, recipe) for name, recipe in group.items()}
        if len(prefixes) > 1 or prefixes & backbones.keys():
            raise ValueError(
                "columns of several backbones must be named PREFIX.POOLING, with a prefix for each backbone that no "
                f"other uses, got {', '.join(recipes)}. Rebuild the backbones one by one."
            )
        (prefix,) = prefixes
        plain = {name_of(recipe): recipe for recipe in group.values()}
        backbones[prefix] = rebuild(plain, weights=weights.get(prefix), device=device)
    return backbones


def weights_for(recipes: Mapping[str, Recipe], weights: Path | None) -> dict[str, Path]:
    """Return the weights, if given, by the prefix of the recipes' backbone; raise ValueError for several backbones."""
    if weights is None:
        return {}
    groups = group_recipes(recipes)
    if len(groups) > 1:
        raise ValueError(
            f"a weights file belongs to one backbone, but the columns {list(recipes)} come from {len(groups)} "
            "backbones. Name the backbones by path, such as huggingface:/FOLDER, when you create the cache."
        )
    return {prefix_of(*next(iter(recipes.items()))): weights}


def prefix_of(column: str, recipe: Recipe) -> str:
    """Return the part of a column name before the pooling; empty if the name has no prefix."""
    pooling = name_of(recipe)
    return "" if column == pooling else column.removesuffix(f".{pooling}")


def _check_same(name: str, expected: Recipe, loaded: Recipe) -> None:
    if loaded.hash != expected.hash:
        changes = "; ".join(f"{k}: expected {a!r}, got {b!r}" for k, (a, b) in differences(expected, loaded).items())
        raise ValueError(
            f"new vectors need the recipe {expected.hash} of column {name!r}, but the loaded backbone has recipe "
            f"{loaded.hash} ({changes}). Use the same weights, or install the versions in cache.json or card.json."
        )
