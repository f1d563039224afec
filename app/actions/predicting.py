"""Prediction with an exported head, of image files or of a cache."""

from pathlib import Path

import pandas as pd

from benchmarks.inference import images_below, open_predictor, predict_images, predict_table, read_prior
from embedcache.table import read_table
from heads.export import load


def predicted(bundle: Path, sources: list[Path], prior: str, weights: Path | None, device: str) -> pd.DataFrame:
    """Predictions for image files and folders of them, or for the vectors of one cache, which needs no backbone."""
    if len(sources) == 1 and (sources[0] / "cache.json").is_file():
        head = load(bundle).head
        return predict_table(head, read_table(sources[0]), prior=read_prior(prior, head))
    files = [file for path in sources for file in (images_below(path) if path.is_dir() else [path])]
    predictor = open_predictor(bundle, weights=weights, device=device)
    return predict_images(predictor, files, prior=read_prior(prior, predictor.head))
