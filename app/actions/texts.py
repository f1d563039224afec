"""Class names embedded as classifier weights."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.backbones.text import DEFAULT_TEMPLATES, embed_classes
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.table import read_table


def write_texts(
    cache: Path, out: Path, templates: Sequence[str], column: str | None, weights: Path | None, device: str
) -> Iterator[str]:
    """Write the text vectors of a cache's class names; yield lines that say how to use them.

    Raises:
        OutputError: the file does not end in .npz, or cannot be written.
        ValueError: the projection column is missing or ambiguous, or the loaded weights are not those of the cache.
    """
    check_file(out, (".npz",), "a file of class vectors", makes_folder=True)
    table = read_table(cache, stored=True)
    name, recipe = _projection(table.recipes, column)
    model = recipe.model if recipe.tag is None else f"{recipe.model}/{recipe.tag}"
    classes = embed_classes(
        model, table.class_names, templates=templates or DEFAULT_TEMPLATES, weights=weights, device=device
    )
    if classes.image_sha256 != recipe.weights_sha256:
        raise ValueError(
            f"Texts and images must be embedded by the same model, but the image tower that was loaded has weights "
            f"{classes.image_sha256[:12]}…, and column {name!r} was made with {str(recipe.weights_sha256)[:12]}…. Give "
            "the weights that the cache was made with (--weights)."
        )
    classes.save(out)
    size = f"{with_noun(len(classes.class_names), 'class')}, {with_noun(classes.weights.shape[1], 'dimension')}"
    yield f"{out}: {size}, scale {classes.scale:.4g}"
    yield (
        f"To use as a zero-shot head: --set columns=[{name}] --set head.classifier.kind=zero_shot "
        f"--set head.classifier.file={out} --set head.classifier.scale={min(max(classes.scale, 1.0), 200.0):.4g}"
    )
    yield (
        "To initialise a head: --set head.classifier.kind=cosine --set head.classifier.init=weights "
        f"--set head.classifier.file={out}"
    )


def _projection(recipes: dict[str, Recipe], column: str | None) -> tuple[str, Recipe]:
    """Return the name and recipe of the projection column, whose space the text tower shares."""
    usable = {name: r for name, r in recipes.items() if r.provider == "open_clip" and r.pooling == "projection"}
    chosen = usable if column is None else {name: r for name, r in usable.items() if name == column}
    if len(chosen) != 1:
        raise ValueError(
            f"Exactly one projection column is needed to embed class names, but this cache has the projections "
            f"{sorted(usable)} among its columns {sorted(recipes)}"
            f"{'' if column is None else f', and --column is {column!r}'}. "
            + ("Choose one with --column." if usable else "Embed with open_clip:MODEL/TAG and --pool projection.")
        )
    return next(iter(chosen.items()))
