"""From a bundle and image files to classes and probabilities."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from frostbench.benchmarks.inference.canary import check_canary
from frostbench.benchmarks.inference.classified import as_frame, classified
from frostbench.benchmarks.inference.test_time_views import looks, vectors_of
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
    """A head, or an ensemble of heads, with the backbone of its recipe.

    Attributes:
        head: what predicts.
        backbones: rebuilt from the head's recipes, so that they embed an image once for all columns, and checked
            against the bundle's canary.
        notes: sentences about what of the bundle could not be checked.
    """

    head: Predictive
    backbones: BackboneGroup
    notes: tuple[str, ...] = ()

    @property
    def background(self) -> tuple[int, int, int]:
        """The RGB colour on which transparent pixels are composited."""
        return self.backbones.background or (255, 255, 255)

    @property
    def intensity_range(self) -> tuple[float, float] | None:
        """The grey values of images of more than 8 bits that become 0 and 255; None takes all 16 bits."""
        return self.backbones.intensity_range

    def look(self, name: str, pixels: np.ndarray) -> tuple[Prepared, ...]:
        """An image uint8 [H, W, 3], and the views that the head averages over, prepared; safe in many threads."""
        return looks(self.backbones, self.head.views, name, pixels)

    def vectors(self, seen: Sequence[tuple[Prepared, ...]]) -> dict[str, Tensor]:
        """All vectors [N, D] that the head reads of N images that were looked at."""
        return vectors_of(self.backbones, self.head.views, seen)


def open_predictor(
    folder: Path, *, weights: Path | None = None, device: str = "cpu", plugins: Sequence[str | Path] = ()
) -> Predictor:
    """Load a bundle and the backbone it needs, and embed the canary anew.

    Args:
        folder: of the bundle.
        weights: file or folder of the backbone's weights, instead of the hub.
        device: where the backbone runs.
        plugins: .py files that may be run, where the head is a plugin; see `frostbench.heads.bundle.export.load`.

    Raises:
        ValueError: the folder is no bundle, the head has no recipe, the backbone that loads here has another recipe, or
            it gives other vectors for the canary.
    """
    bundle = load(folder, plugins)
    if not bundle.head.recipes:
        raise ValueError(
            "images are embedded by the recipe of the head, however: this head has none, for it was trained on arrays. "
            "Train it on a cache, or give it vectors through frostbench.heads.bundle.export.load."
        )
    recipes = recipes_of(bundle)
    backbones = BackboneGroup(rebuild_all(recipes, weights=weights_for(recipes, weights), device=device))
    if bundle.canary is not None:
        check_canary(bundle.canary, backbones)
    return Predictor(bundle.head, backbones, bundle.notes)


def recipes_of(bundle: Bundle) -> dict[str, Recipe]:
    """The recipes of the head's columns, in the order in which it reads them.

    Raises:
        ValueError: a recipe does not have the hash that stands beside it.
    """
    found = {}
    for name in bundle.head.columns:
        told = dict(bundle.head.recipes[name])
        stated, recipe = told.pop("hash", None), Recipe.model_validate(told)
        if recipe.hash != stated:
            raise ValueError(
                f"the recipe of column {name!r} must have the hash {stated} of its bundle, however: it has "
                f"{recipe.hash}. The card was edited, or a version with other recipe fields wrote it. Export it again."
            )
        found[name] = recipe
    return found


def read_prior(text: str, head: Predictive) -> Tensor | None:
    """The class prior [C] that `trained`, `uniform` or a YAML or JSON file of `class: share` names; None for trained.

    Raises:
        SettingsError: there is no such file, or it names other classes than the head's or something else than shares.
    """
    if text == "trained":
        return None
    if text == "uniform":
        return head.uniform_prior()
    if not Path(text).is_file():
        raise SettingsError(
            f"a prior is trained, uniform or a file of `class: share`, however: {text!r} is none. Is the path right?"
        )
    shares = {str(name): share for name, share in load_yaml(Path(text)).items()}
    unknown, missing = shares.keys() - set(head.class_names), set(head.class_names) - shares.keys()
    if unknown or missing:
        raise SettingsError(
            f"a prior file gives a share for each of the head's classes, however: in {text} {sorted(missing)} are "
            f"missing and {sorted(unknown)} are unknown. The classes are {list(head.class_names)}; put names that YAML "
            "reads as numbers or as true and false in quotes."
        )
    wrong = {name: share for name, share in shares.items() if not _is_share(share)}
    if wrong:
        raise SettingsError(f"shares of a prior are numbers from 0 up, however: {text} has {wrong}. Correct them.")
    return torch.tensor([float(shares[name]) for name in head.class_names], dtype=torch.float64)


def _is_share(share: object) -> bool:
    return isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < math.inf


def predict_images(
    predictor: Predictor,
    images: Sequence[Path],
    *,
    prior: Tensor | None = None,
    batch_size: int = 64,
    tell: Callable[[int], None] = lambda done: None,
    remark: Callable[[Remarks], None] = lambda remarks: None,
) -> pd.DataFrame:
    """Classes and probabilities of image files, one row each, in the order given.

    The columns are `image`, `class`, `probability`, `error`, and `p:NAME` for each class; a file that cannot be
    decoded, or whose vector is not finite, has its reason under `error` and nothing under the others. The probability
    is that of the class, which thresholds or shifts of the head may have chosen against a larger one. After each batch
    `tell` is called with how many are done, and `remark` with what should be told of the batch's images.
    """
    names = predictor.head.class_names
    moved = replace(predictor, head=predictor.head.under(prior))
    parts = []
    for batch in _batches(images, batch_size):
        table, remarks = _predict_batch(moved, batch)
        parts.append(table)
        remark(remarks)
        tell(min(len(parts) * batch_size, len(images)))
    columns = ["image", "class", "probability", "error", *(f"p:{name}" for name in names)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def predict_table(head: Predictive, table: FeatureTable, *, prior: Tensor | None = None) -> pd.DataFrame:
    """Classes and probabilities of cached vectors, in the form of `predict_images`, with ids under `image`.

    A head that averages over views looks at the vectors alone: a cache has no images to make views of. A row whose
    vector is not finite has its reason under `error`.

    Raises:
        ValueError: the table's recipes are not those of the head.
    """
    head = head.without_views()
    known = {name: recipe.model_dump(mode="json") | {"hash": recipe.hash} for name, recipe in table.recipes.items()}
    head.check_recipes(known)
    vectors = {name: torch.from_numpy(table.columns[name].astype(np.float32)) for name in head.columns}
    found, reasons = classified(head.under(prior), vectors)
    return as_frame(table.ids.tolist(), head.class_names, found, reasons)


def _batches(images: Sequence[Path], size: int) -> Iterator[Sequence[Path]]:
    return (images[i : i + size] for i in range(0, len(images), size))


def _predict_batch(predictor: Predictor, images: Sequence[Path]) -> tuple[pd.DataFrame, Remarks]:
    def look(path: Path) -> tuple[tuple[Prepared, ...] | DecodeError, Remarks]:
        try:
            pixels, remarks = decode_image(
                read_image_file(path), background=predictor.background, intensity_range=predictor.intensity_range
            )
            return predictor.look(path.name, pixels), remarks
        except DecodeError as error:
            return error, Remarks()

    with ThreadPoolExecutor() as pool:
        looked = list(pool.map(look, images))
    seen = [one for one, _ in looked]
    names = predictor.head.class_names
    probabilities = torch.full((len(images), len(names)), torch.nan)
    chosen = torch.full((len(images),), -1, dtype=torch.int64)
    reasons = [str(x) if isinstance(x, DecodeError) else None for x in seen]
    good = [row for row, reason in enumerate(reasons) if reason is None]
    if good:
        vectors = predictor.vectors([x for x in seen if not isinstance(x, DecodeError)])
        (probabilities[good], chosen[good]), told = classified(predictor.head, vectors)
        for row, reason in zip(good, told, strict=True):
            reasons[row] = reason
    table = as_frame([escape_name(str(path)) for path in images], names, (probabilities, chosen), reasons)
    return table, added(remarks for _, remarks in looked)


def check_predictions(out: Path) -> None:
    """Refuse a file for predictions that cannot be written, before anything is computed.

    Raises:
        OutputError: it is neither .csv, .json nor .parquet, or cannot be written.
    """
    check_file(out, TABLES, "a file of predictions")


def write_predictions(table: pd.DataFrame, out: Path) -> None:
    """Write predictions as .csv, .json (records) or .parquet, by the file's ending, whole or not at all.

    Texts of .csv that a spreadsheet would take for formulas get an apostrophe; see
    `frostbench.embedcache.outputs.spreadsheets`.

    Raises:
        OutputError: another ending, or nothing can be written there.
    """
    check_predictions(out)
    typed = {"class": "string", "probability": "float64", "error": "string"}
    write_frame(table.astype(typed) if out.suffix.lower() == ".parquet" else table, out)
