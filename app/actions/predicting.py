"""Prediction with an exported head on image files or on a cache."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd

from frostbench.app.progress import bar, note
from frostbench.benchmarks.inference.predict import open_predictor, predict_images, predict_table, read_prior
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.embedcache.remarks import Remarks, added
from frostbench.embedcache.sources.walking import find_images
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.heads.ensemble import Predictive


def run_prediction(
    bundle: Path,
    sources: list[Path],
    prior: str,
    weights: Path | None,
    device: str,
    decisions: Literal["tuned", "argmax"] = "tuned",
    plugins: Sequence[Path] = (),
) -> pd.DataFrame:
    """Return predictions for image files and folders, or for the vectors of one cache, which needs no backbone.

    Decisions use the bundle's thresholds and shifts ("tuned") or the largest probability ("argmax"). `plugins` are the
    files whose code may be executed if the head is defined by one.
    """
    if len(sources) == 1 and (sources[0] / "cache.json").is_file():
        opened = load(bundle, plugins)
        for message in opened.notes:
            note(message)
        head = _with_decisions(opened.head, decisions)
        if head.views:
            note(
                f"the head averages over {with_noun(len(head.views), 'view')} of each image, but predictions on a "
                "cache use none. Give the image files to average over views."
            )
        return predict_table(head, read_table(sources[0]), prior=read_prior(prior, head))
    files = [file for path in sources for file in (_image_files(path) if path.is_dir() else [path])]
    predictor = open_predictor(bundle, weights=weights, device=device, plugins=plugins)
    for message in predictor.notes:
        note(message)
    predictor = replace(predictor, head=_with_decisions(predictor.head, decisions))
    target = read_prior(prior, predictor.head)
    remarks = list[Remarks]()
    with bar("predicting") as progress:
        progress.move(0, len(files))
        table = predict_images(
            predictor,
            files,
            prior=target,
            on_progress=lambda done: progress.move(done, len(files)),
            remark=remarks.append,
        )
    for sentence in added(remarks).sentences():
        note(sentence)
    return table


def _image_files(folder: Path) -> list[Path]:
    """Return the image files in a folder and below; print notes on files that are skipped."""
    files, left_out = find_images(folder)
    for sentence in left_out:
        note(f"{folder}: {sentence}")
    return files


def _with_decisions(head: Predictive, decisions: Literal["tuned", "argmax"]) -> Predictive:
    return head if decisions == "tuned" else head.without_decisions()
