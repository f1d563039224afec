"""Predicts classes and probabilities of image files or cached vectors with the head of a bundle."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from frostbench.benchmarks.inference.canary import check_canary
from frostbench.benchmarks.inference.classified import Predicted, as_frame, classified
from frostbench.benchmarks.inference.test_time_views import prepare_views, vectors_of
from frostbench.benchmarks.settings.parsing import SettingsError, load_yaml
from frostbench.embedcache.backbones.rebuild import rebuild_all, weights_for
from frostbench.embedcache.decode import DecodeError, decode_image, read_image_file
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, Prepared
from frostbench.embedcache.items import escape_name
from frostbench.embedcache.outputs.places import check_file
from frostbench.embedcache.outputs.tables import TABLES, write_frame
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.remarks import Remarks, added
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import Bundle, load
from frostbench.heads.ensemble import Predictive


@dataclass(frozen=True)
class Predictor:
    """A head, or an ensemble of heads, with the backbones that it needs.

    Attributes:
        head: the head or ensemble.
        backbones: backbones rebuilt from the head's recipes and checked against the bundle's canary.
        notes: sentences about parts of the bundle that could not be checked.
    """

    head: Predictive
    backbones: BackboneGroup
    notes: tuple[str, ...] = ()

    @property
    def background(self) -> tuple[int, int, int]:
        """RGB colour on which transparent pixels are composited."""
        return self.backbones.background or (255, 255, 255)

    @property
    def intensity_range(self) -> tuple[float, float] | None:
        """Grey values that become 0 and 255 in images of more than 8 bits, or None to use all 16 bits."""
        return self.backbones.intensity_range

    def prepare(self, name: str, pixels: np.ndarray) -> tuple[Prepared, ...]:
        """Prepare an image uint8 [H, W, 3] and the views that the head averages over; thread-safe."""
        return prepare_views(self.backbones, self.head.views, name, pixels)

    def vectors(self, prepared: Sequence[tuple[Prepared, ...]]) -> dict[str, Tensor]:
        """Embed N prepared images; return all vectors [N, D] that the head reads."""
        return vectors_of(self.backbones, self.head.views, prepared)


def open_predictor(
    folder: Path, *, weights: Path | None = None, device: str = "cpu", plugins: Sequence[str | Path] = ()
) -> Predictor:
    """Load a bundle and the backbones it needs, and check them with the canary.

    Args:
        folder: folder of the bundle.
        weights: file or folder with the weights of the backbone, used instead of the hub.
        device: device of the backbones.
        plugins: .py files that may be executed if the head is a plugin; see `frostbench.heads.bundle.export.load`.

    Raises:
        ValueError: the folder is not a bundle, the head has no recipe, the backbone loaded here has a different recipe,
            or it gives different vectors for the canary.
    """
    bundle = load(folder, plugins)
    if not bundle.head.recipes:
        raise ValueError(
            "Images can only be embedded by the recipe of the head, but this head was trained on arrays and has no "
            "recipe. Train it on a cache, or load it with `frostbench.load` and give it vectors."
        )
    recipes = recipes_of(bundle)
    backbones = BackboneGroup(rebuild_all(recipes, weights=weights_for(recipes, weights), device=device))
    if bundle.canary is not None:
        check_canary(bundle.canary, backbones)
    return Predictor(bundle.head, backbones, bundle.notes)


def recipes_of(bundle: Bundle) -> dict[str, Recipe]:
    """Return the recipes of the head's columns, in the order in which the head reads them.

    Raises:
        ValueError: a recipe does not match its stored hash.
    """
    recipes = {}
    for name in bundle.head.columns:
        fields = dict(bundle.head.recipes[name])
        stated, recipe = fields.pop("hash", None), Recipe.model_validate(fields)
        if recipe.hash != stated:
            raise ValueError(
                f"The recipe of column {name!r} must have the hash {stated}, as the bundle states, but it has "
                f"{recipe.hash}. The card was edited or written by a version with other recipe fields. Export the "
                "bundle again."
            )
        recipes[name] = recipe
    return recipes


def read_prior(text: str, head: Predictive) -> Tensor | None:
    """Read a class prior [C]: `uniform`, a YAML or JSON file of `class: share` lines, or `trained`, which gives None.

    Raises:
        SettingsError: the file does not exist, or does not give one share for each class of the head.
    """
    if text == "trained":
        return None
    if text == "uniform":
        return head.uniform_prior()
    if not Path(text).is_file():
        raise SettingsError(
            f"A prior must be `trained`, `uniform` or a file of `class: share` lines, got {text!r}. Check the path."
        )
    shares = {str(name): share for name, share in load_yaml(Path(text)).items()}
    unknown, missing = shares.keys() - set(head.class_names), set(head.class_names) - shares.keys()
    if unknown or missing:
        raise SettingsError(
            f"A prior file must give a share for each class of the head, but in {text} {sorted(missing)} are missing "
            f"and {sorted(unknown)} are unknown. The classes are {list(head.class_names)}; put names that YAML reads "
            "as numbers or booleans in quotes."
        )
    wrong = {name: share for name, share in shares.items() if not _is_share(share)}
    if wrong:
        raise SettingsError(f"Shares of a prior must be non-negative numbers, but {text} has {wrong}. Correct them.")
    return torch.tensor([float(shares[name]) for name in head.class_names], dtype=torch.float64)


def _is_share(share: object) -> bool:
    return isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < math.inf


def predict_images(
    predictor: Predictor,
    images: Sequence[Path],
    *,
    prior: Tensor | None = None,
    batch_size: int = 64,
    on_progress: Callable[[int], None] = lambda done: None,
    remark: Callable[[Remarks], None] = lambda remarks: None,
) -> pd.DataFrame:
    """Predict classes and probabilities of image files; return one row per file, in the order given.

    The columns are `image`, `class`, `probability`, `error`, and `p:NAME` for each class. For a file that cannot be
    decoded, or whose vector is not finite, `error` states the reason and the other columns are empty. The probability
    is that of the predicted class, which need not be the largest one if the head has thresholds, shifts or costs. A
    head that abstains says `unsure` instead of a class whose probability is too low. After each batch `on_progress` is
    called with the number of files done, and `remark` with remarks on the images of the batch.
    """
    names = predictor.head.class_names
    predictor = replace(predictor, head=predictor.head.under(prior))
    parts = []
    for start in range(0, len(images), batch_size):
        table, remarks = _predict_batch(predictor, images[start : start + batch_size])
        parts.append(table)
        remark(remarks)
        on_progress(min(len(parts) * batch_size, len(images)))
    columns = ["image", "class", "probability", "error", *(f"p:{name}" for name in names)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def predict_table(head: Predictive, table: FeatureTable, *, prior: Tensor | None = None) -> pd.DataFrame:
    """Predict classes and probabilities of cached vectors, as in `predict_images`, with ids as `image`.

    Test-time views are left out, since a cache has no images to make them from.

    Raises:
        ValueError: the recipes of the table are not those of the head.
    """
    head = head.without_views()
    recipes = {name: recipe.model_dump(mode="json") | {"hash": recipe.hash} for name, recipe in table.recipes.items()}
    head.check_recipes(recipes)
    vectors = {name: torch.from_numpy(table.columns[name].astype(np.float32)) for name in head.columns}
    predicted, reasons = classified(head.under(prior), vectors)
    return as_frame(table.ids.tolist(), head.class_names, predicted, reasons)


def _predict_batch(predictor: Predictor, images: Sequence[Path]) -> tuple[pd.DataFrame, Remarks]:
    def prepare(path: Path) -> tuple[tuple[Prepared, ...] | DecodeError, Remarks]:
        try:
            pixels, remarks = decode_image(
                read_image_file(path), background=predictor.background, intensity_range=predictor.intensity_range
            )
            return predictor.prepare(path.name, pixels), remarks
        except DecodeError as error:
            return error, Remarks()

    with ThreadPoolExecutor() as pool:
        results = list(pool.map(prepare, images))
    prepared = [result for result, _ in results]
    names = predictor.head.class_names
    found = Predicted.none(len(images), len(names))
    reasons = [str(x) if isinstance(x, DecodeError) else None for x in prepared]
    good = [row for row, reason in enumerate(reasons) if reason is None]
    if good:
        vectors = predictor.vectors([x for x in prepared if not isinstance(x, DecodeError)])
        own, own_reasons = classified(predictor.head, vectors)
        for whole, part in zip(found, own, strict=True):
            whole[good] = part
        for row, reason in zip(good, own_reasons, strict=True):
            reasons[row] = reason
    table = as_frame([escape_name(str(path)) for path in images], names, found, reasons)
    return table, added(remarks for _, remarks in results)


def check_predictions(out: Path) -> None:
    """Check that a file for predictions can be written, before anything is computed.

    Raises:
        OutputError: the file does not end in .csv, .json or .parquet, or cannot be written.
    """
    check_file(out, TABLES, "a file of predictions")


def write_predictions(table: pd.DataFrame, out: Path) -> None:
    """Write predictions atomically as .csv, .json (records) or .parquet, depending on the suffix.

    In .csv, text that a spreadsheet would take for a formula gets an apostrophe; see
    `frostbench.embedcache.outputs.spreadsheets`.

    Raises:
        OutputError: as in `check_predictions`.
    """
    check_predictions(out)
    typed = {"class": "string", "probability": "float64", "error": "string"}
    write_frame(table.astype(typed) if out.suffix.lower() == ".parquet" else table, out)
