"""Class names as a classifier."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from frostbench.embedcache.backbones.text import DEFAULT_TEMPLATES, embed_classes
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.table import read_table


def write_texts(
    cache: Path, out: Path, templates: Sequence[str], column: str | None, weights: Path | None, device: str
) -> Iterator[str]:
    """Write the class vectors of a cache's names, and say how a bench uses them.

    Raises:
        OutputError: the file has another ending, or cannot be written.
        ValueError: the cache has no projection of an open_clip model, or the weights that load here are others.
    """
    check_file(out, (".npz",), "a file of class vectors", makes_folder=True)
    table = read_table(cache, stored=True)
    name, recipe = _projection(table.recipes, column)
    model = recipe.model if recipe.tag is None else f"{recipe.model}/{recipe.tag}"
    found = embed_classes(
        model, table.class_names, templates=templates or DEFAULT_TEMPLATES, weights=weights, device=device
    )
    if found.image_sha256 != recipe.weights_sha256:
        raise ValueError(
            f"texts go with the images of one model, however: the image tower that loads here has weights "
            f"{found.image_sha256[:12]}…, and column {name!r} was made by {str(recipe.weights_sha256)[:12]}…. Give the "
            "weights that the cache was made with."
        )
    found.save(out)
    yield f"{out}: {len(found.class_names)} classes, {found.weights.shape[1]} dimensions, scale {found.scale:.4g}"
    yield (
        f"A zero-shot head: --set columns=[{name}] --set head.classifier.kind=zero_shot "
        f"--set head.classifier.file={out} --set head.classifier.scale={min(max(found.scale, 1.0), 200.0):.4g}"
    )
    yield (
        "A start: --set head.classifier.kind=cosine --set head.classifier.init=weights "
        f"--set head.classifier.file={out}"
    )


def _projection(recipes: dict[str, Recipe], column: str | None) -> tuple[str, Recipe]:
    """The column in the space that a text tower shares."""
    able = {name: r for name, r in recipes.items() if r.provider == "open_clip" and r.pooling == "projection"}
    chosen = able if column is None else {name: r for name, r in able.items() if name == column}
    if len(chosen) != 1:
        raise ValueError(
            f"class names are embedded into the space of one projection, however: this cache has the projections "
            f"{sorted(able)} among its columns {sorted(recipes)}"
            f"{'' if column is None else f', and {column!r} was asked for'}. "
            + ("Name one by --column." if able else "Embed with open_clip:MODEL/TAG and --pool projection.")
        )
    return next(iter(chosen.items()))
