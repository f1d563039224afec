"""Prediction with an exported head, of image files or of a cache."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd

from frostbench.app.progress import bar, note
from frostbench.benchmarks.inference.predict import open_predictor, predict_images, predict_table, read_prior
from frostbench.embedcache.remarks import Remarks, added
from frostbench.embedcache.sources.walking import find_images
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.heads.ensemble import Predictive


def predicted(
    bundle: Path,
    sources: list[Path],
    prior: str,
    weights: Path | None,
    device: str,
    decisions: Literal["tuned", "argmax"] = "tuned",
    plugins: Sequence[Path] = (),
) -> pd.DataFrame:
    """Predictions for image files and folders of them, or for the vectors of one cache, which needs no backbone.

    Decisions are those of the bundle, or the largest probability; `plugins` may be run where the head is one of them.
    """
    if len(sources) == 1 and (sources[0] / "cache.json").is_file():
        opened = load(bundle, plugins)
        for told in opened.notes:
            note(told)
        head = _deciding(opened.head, decisions)
        if head.views:
            note(
                f"the head averages over {len(head.views)} views of each image, and a cache holds the images alone: "
                "predicted without views. Name the image files to average."
            )
        return predict_table(head, read_table(sources[0]), prior=read_prior(prior, head))
    files = [file for path in sources for file in (_listed(path) if path.is_dir() else [path])]
    predictor = open_predictor(bundle, weights=weights, device=device, plugins=plugins)
    for told in predictor.notes:
        note(told)
    predictor = replace(predictor, head=_deciding(predictor.head, decisions))
    asked = read_prior(prior, predictor.head)
    remarks = list[Remarks]()
    with bar("predicting") as progress:
        progress.move(0, len(files))
        table = predict_images(
            predictor, files, prior=asked, tell=lambda done: progress.move(done, len(files)), remark=remarks.append
        )
    for sentence in added(remarks).sentences():
        note(sentence)
    return table


def _listed(folder: Path) -> list[Path]:
    """The image files in a folder and below, after notes on what is left out of it."""
    found, left_out = find_images(folder)
    for sentence in left_out:
        note(f"{folder}: {sentence}")
    return found


def _deciding(head: Predictive, decisions: Literal["tuned", "argmax"]) -> Predictive:
    return head if decisions == "tuned" else head.without_decisions()
