"""Predictions of one or more heads on a set of images; runs in a process of its own, which imports torch.

The functions are called through `frostbench.app.workbench.predict.process`. Sets are kept in memory.
"""

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frostbench.app.workbench.predict.choice import MOST_SETS, Choice
from frostbench.app.workbench.tables import table_of, written
from frostbench.benchmarks.decisions.applying import with_decision
from frostbench.benchmarks.decisions.exporting import describe
from frostbench.benchmarks.decisions.kept import kept_decision
from frostbench.benchmarks.inference.adjusted import abstentions, decisions, log_probabilities, logits_of
from frostbench.benchmarks.inference.classified import TOO_LARGE
from frostbench.benchmarks.inference.novelty import Novelty, novelty_of
from frostbench.benchmarks.inference.predict import Predictor, open_predictor
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record, run_folder
from frostbench.embedcache.decode import DecodeError, decode_image, read_image_file
from frostbench.embedcache.extraction.backbone_group import Prepared
from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.vectors import NOT_FINITE, finite_rows

CUTS = tuple(cut / 100 for cut in range(101))
"""Confidences below which an answer may count as not sure."""
FIRST = 5
NEAREST = 6


class PredictionError(ValueError):
    """A set of images is no longer kept, or a head cannot predict."""


@dataclass
class _Row:
    """One image: why it has no prediction, or per head its logits [M, C], and its vectors by column."""

    reason: str | None
    logits: dict[int, Tensor] = field(default_factory=dict)
    vectors: dict[int, list[np.ndarray]] = field(default_factory=dict)


@dataclass
class _Set:
    predictors: list[Predictor]
    novelty: list[Novelty | str]
    alike: list[list[int]]
    """Numbers of the heads that read the same vectors, so that images are embedded once for all of them."""
    rows: list[_Row] = field(default_factory=list)


_sets: OrderedDict[str, _Set] = OrderedDict()


def begin(name: str, choices: Sequence[Choice], device: str, plugins: tuple[Path, ...]) -> list[dict[str, Any]]:
    """Open the heads of a set and return what the page shows of each.

    Raises:
        PredictionError: a head cannot be opened here; the message names the run and the reason.
    """
    predictors = [_opened(choice, device, plugins) for choice in choices]
    novelty = [_novelty_of(choice, predictor.head) for choice, predictor in zip(choices, predictors, strict=True)]
    _sets[name] = _Set(predictors, novelty, _alike(predictors))
    while len(_sets) > MOST_SETS:
        _sets.popitem(last=False)
    return [_facts(*about) for about in zip(predictors, novelty, choices, strict=True)]


def add(name: str, files: Sequence[tuple[Path, str]]) -> None:
    """Predict images, given as path and original name, which seeds the random views of an image."""
    found = _set(name)
    rows = [_Row(None) for _ in files]
    for heads in found.alike:
        _predict(found, heads, files, rows)
    found.rows += rows


def results(name: str, temperature: float, prior: float) -> dict[str, Any]:
    """Return what each head predicts for the images so far.

    Args:
        name: the set.
        temperature: see `frostbench.benchmarks.inference.adjusted.log_probabilities`.
        prior: see there.

    Returns:
        `errors`, one per image or None; and `heads`, each with `classes` (class index or -1), `probabilities` of these,
        `unsure` (whether the head abstains), `cosines` to the nearest training image and `unlike` (None where it cannot
        be said), and `shares` [C], the sums of the probabilities, with their `variances`, which assume that images are
        independent and probabilities right.
    """
    found = _set(name)
    heads = [_of_head(found, number, temperature, prior) for number in range(len(found.predictors))]
    return {"errors": [row.reason for row in found.rows], "heads": heads}


def inspect(name: str, image: int, temperature: float, prior: float) -> list[dict[str, Any]]:
    """Return, for each head, the most probable classes of an image and its nearest training images.

    Raises:
        PredictionError: the set has no such image, or the image has no prediction.
    """
    found = _set(name)
    if not 0 <= image < len(found.rows) or found.rows[image].reason:
        raise PredictionError("This image has no prediction. Reload the page.")
    return [_inspected(found, number, image, temperature, prior) for number in range(len(found.predictors))]


def probabilities(name: str, temperature: float, prior: float) -> list[np.ndarray]:
    """Return the probabilities [N, C] of each head, NaN for images without a prediction."""
    found = _set(name)
    return [_probabilities(found, number, temperature, prior) for number in range(len(found.predictors))]


def forget(name: str) -> None:
    """Drop a set."""
    _sets.pop(name, None)


def _set(name: str) -> _Set:
    if name not in _sets:
        raise PredictionError("These predictions are no longer kept. Predict again.")
    _sets.move_to_end(name)
    return _sets[name]


def _opened(choice: Choice, device: str, plugins: tuple[Path, ...]) -> Predictor:
    try:
        opened = _predictor(run_folder(choice.store, choice.key) / "head", device, plugins)
        decision = kept_decision(choice.store, choice.key)
        if decision is None or isinstance(opened.head, Ensemble):
            return opened
        return replace(opened, head=with_decision(opened.head, decision))
    except (ValueError, OSError, ModuleNotFoundError) as error:
        raise PredictionError(f"The head of run {choice.key} cannot predict here: {error}") from error


@lru_cache(maxsize=6)
def _predictor(folder: Path, device: str, plugins: tuple[Path, ...]) -> Predictor:
    return open_predictor(folder, device=device, plugins=plugins)


def _alike(predictors: Sequence[Predictor]) -> list[list[int]]:
    groups: dict[str, list[int]] = {}
    for number, one in enumerate(predictors):
        recipes = sorted((name, recipe["hash"]) for name, recipe in one.head.recipes.items())
        groups.setdefault(repr((recipes, sorted(one.head.reads), one.head.views)), []).append(number)
    return list(groups.values())


def _novelty_of(choice: Choice, head: Predictive) -> Novelty | str:
    """Return what tells images that are unlike the training images, or why it cannot be told."""
    if choice.cache is None:
        return "the training images are not below the folder of the page"
    try:
        return _novelty(choice, choice.cache, tuple(head.columns), written(choice.cache))
    except (ValueError, OSError) as error:
        return str(error)


@lru_cache(maxsize=4)
def _novelty(choice: Choice, cache: Path, columns: tuple[str, ...], _written: int) -> Novelty:
    table, record = table_of(cache), read_record(choice.store, choice.key)
    if record.data.folds:
        raise ValueError("the run was cross-validated, so no images were held out from all of its heads")
    held = {role: _ids(choice, role) for role in ("select", "test")}
    return novelty_of(table, columns, held["select"], held["test"])


def _ids(choice: Choice, role: str) -> list[str]:
    try:
        return [str(one) for one in read_outcomes(choice.store, choice.key, role)["id"]]
    except StoreError:
        return []  # a split need not have test images


def _facts(predictor: Predictor, novelty: Novelty | str, choice: Choice) -> dict[str, Any]:
    facts: dict[str, Any] = {"classes": list(predictor.head.class_names), "notes": list(predictor.notes)}
    facts |= {"sure": _sure(choice), "decision": _decision(choice)}
    if isinstance(novelty, str):
        return facts | {"unlike": None, "why_not": novelty}
    told = {"threshold": novelty.threshold, "false_alarms": novelty.false_alarms, "measured_on": novelty.measured_on}
    return facts | {"unlike": told | {"training": len(novelty.ids)}, "why_not": ""}


def _decision(choice: Choice) -> str:
    """Return the decision kept for a run, in words, or ""."""
    decision = kept_decision(choice.store, choice.key)
    return "" if decision is None else describe(decision)


def _sure(choice: Choice) -> dict[str, list[float | None]] | None:
    """Return, for each cut of `CUTS`, the share of validation images below it and the share right of the others.

    None if the run has no validation images, or is cross-validated: its confidences are then those of other heads.
    """
    if read_record(choice.store, choice.key).data.folds:
        return None
    try:
        rows = read_outcomes(choice.store, choice.key, "select")
    except StoreError:
        return None
    confidence = rows["confidence"].to_numpy()
    right = (rows["label"] == rows["predicted"]).to_numpy()
    kept = [confidence >= cut for cut in CUTS]
    return {
        "below": [round(float(1 - one.mean()), 4) for one in kept],
        "right": [round(float(right[one].mean()), 4) if one.any() else None for one in kept],
    }


def _predict(found: _Set, heads: Sequence[int], files: Sequence[tuple[Path, str]], rows: Sequence[_Row]) -> None:
    """Embed images once for heads that read the same vectors, and add their logits to the rows."""
    first = found.predictors[heads[0]]
    with ThreadPoolExecutor() as pool:
        prepared = list(pool.map(lambda file: _prepared(first, *file), files))
    for row, one in zip(rows, prepared, strict=True):
        row.reason = row.reason or (str(one) if isinstance(one, DecodeError) else None)
    sound = [(row, one) for row, one in zip(rows, prepared, strict=True) if not isinstance(one, DecodeError)]
    if not sound:
        return
    vectors = first.vectors([one for _, one in sound])
    finite = finite_rows(list(vectors.values())).tolist()
    for number in heads:
        _add_logits(found, number, [row for row, _ in sound], vectors, finite)


def _prepared(predictor: Predictor, path: Path, name: str) -> tuple[Prepared, ...] | DecodeError:
    try:
        content = read_image_file(path)
        background, window = predictor.background, predictor.intensity_range
        return predictor.prepare(name, decode_image(content, background=background, intensity_range=window)[0])
    except DecodeError as error:
        return error


def _add_logits(
    found: _Set, number: int, rows: Sequence[_Row], vectors: dict[str, Tensor], finite: Sequence[bool]
) -> None:
    head, good = found.predictors[number].head, torch.tensor(finite)
    read = {name: one[good] for name, one in vectors.items()}
    logits = logits_of(head, read) if good.any() else torch.empty(0)
    place = 0
    for row, is_finite, *own in zip(rows, finite, *(vectors[name] for name in head.columns), strict=True):
        if not is_finite:
            row.reason = row.reason or NOT_FINITE
            continue
        row.logits[number] = logits[:, place]
        row.vectors[number] = [one.numpy() for one in own]
        if logits[:, place].isnan().any():
            row.reason = row.reason or TOO_LARGE
        place += 1


def _good(found: _Set) -> list[int]:
    return [place for place, row in enumerate(found.rows) if row.reason is None]


def _logits(found: _Set, number: int, places: Sequence[int]) -> Tensor:
    return torch.stack([found.rows[place].logits[number] for place in places], dim=1)


def _probabilities(found: _Set, number: int, temperature: float, prior: float) -> np.ndarray:
    head, good = found.predictors[number].head, _good(found)
    p = np.full((len(found.rows), len(head.class_names)), np.nan, np.float32)
    if good:
        p[good] = log_probabilities(head, _logits(found, number, good), temperature, prior).exp().float().numpy()
    return p


def _of_head(found: _Set, number: int, temperature: float, prior: float) -> dict[str, Any]:
    head, good = found.predictors[number].head, _good(found)
    p, classes = _probabilities(found, number, temperature, prior), np.full(len(found.rows), -1)
    unsure = np.zeros(len(found.rows), dtype=np.bool_)
    if good:
        logits = _logits(found, number, good)
        classes[good] = decisions(head, logits, prior).numpy()
        unsure[good] = abstentions(head, logits, prior).numpy()
    own = p[good].astype(np.float64)
    cosines = _cosines(found, number, good)
    novelty = found.novelty[number]
    return {
        "classes": classes.tolist(),
        "probabilities": [
            None if c < 0 else round(float(row[c]), 5) for c, row in zip(classes.tolist(), p, strict=True)
        ],
        "unsure": unsure.tolist(),
        "cosines": cosines,
        "unlike": [None if isinstance(novelty, str) or c is None else c < novelty.threshold for c in cosines],
        "shares": own.sum(0).round(4).tolist(),
        "variances": (own * (1 - own)).sum(0).round(4).tolist(),
    }


def _cosines(found: _Set, number: int, good: Sequence[int]) -> list[float | None]:
    """Return the cosine of each image to the nearest training image, None where there is none."""
    cosines: list[float | None] = [None] * len(found.rows)
    novelty = found.novelty[number]
    if isinstance(novelty, str) or not good:
        return cosines
    best = novelty.nearest(_vectors(found, number, good), 1)[1][:, 0]
    for place, cosine in zip(good, best.tolist(), strict=True):
        cosines[place] = round(cosine, 4)
    return cosines


def _vectors(found: _Set, number: int, places: Sequence[int]) -> list[np.ndarray]:
    """Return the vectors [N, D] of images, one array per column of a head."""
    columns = zip(*(found.rows[place].vectors[number] for place in places), strict=True)
    return [np.stack(column) for column in columns]


def _inspected(found: _Set, number: int, image: int, temperature: float, prior: float) -> dict[str, Any]:
    head, novelty = found.predictors[number].head, found.novelty[number]
    p = log_probabilities(head, _logits(found, number, [image]), temperature, prior).exp().float()[0]
    order = p.argsort(descending=True, stable=True)[:FIRST].tolist()
    told: dict[str, Any] = {"classes": order, "probabilities": [round(float(p[c]), 5) for c in order], "nearest": []}
    if not isinstance(novelty, str):
        rows, cosines = novelty.nearest(_vectors(found, number, [image]), NEAREST)
        labels = novelty.labels[rows[0]].tolist()
        told["nearest"] = [
            {"id": str(one), "label": label, "cosine": round(float(cosine), 3)}
            for one, label, cosine in zip(novelty.ids[rows[0]], labels, cosines[0], strict=True)
        ]
    return told
