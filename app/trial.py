"""Predictions of one head for one image: logits, and probabilities for another temperature or class prior."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from frostbench.benchmarks.inference.predict import Predictor, open_predictor
from frostbench.benchmarks.runs.record import best_of
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.embedcache.decode import decode_file
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.trained import TrainedHead


@dataclass(frozen=True)
class Trial:
    """Prediction of a head for an image.

    Attributes:
        key: run key.
        class_names: C names.
        logits: [C] logits under the head's own prior; -inf for classes without training rows.
        implied: [C] the head's own prior.
        uniform: [C] uniform prior over the trained classes.
        layers: the head's calibration.
        head: head that refits the calibration for another prior, or None.
    """

    key: str
    class_names: tuple[str, ...]
    logits: Tensor
    implied: Tensor
    uniform: Tensor
    layers: Layers
    head: TrainedHead | None = None


def best_run(store: Path, keys: Mapping[int, str]) -> str:
    """Return the run key of the seed with the best validation macro F1, or of the first seed if none has one.

    Raises:
        StoreError: a run is missing from the store.
    """
    return best_of([read_record(store, key) for key in keys.values()]).key


def try_image(
    image: Path, name: str, store: Path, keys: Mapping[int, str], device: str, plugins: tuple[Path, ...] = ()
) -> Trial:
    """Embed an image with the backbone of a side's best run and apply the head, as `predict_images` does.

    Results are cached by path, so the content of an image file must not change.

    Args:
        image: path of the image file.
        name: original file name, which seeds the random views of the image.
        store: run store.
        keys: run key by seed.
        device: device of the backbone, such as cpu or cuda.
        plugins: files that may be executed to define a head.

    Raises:
        ValueError: the image cannot be decoded, or the head's backbone cannot be loaded or gives different vectors.
    """
    return _predict(image, name, store, best_run(store, keys), device, plugins)


def probabilities(trial: Trial, temperature: float, prior: float) -> list[float]:
    """Return the probabilities [C] of the calibrated head at another temperature and class prior.

    Args:
        trial: prediction of the head.
        temperature: extra temperature; 1 has no effect.
        prior: 0 for the head's own prior, 1 for the uniform prior; between, their normalised weighted geometric mean.

    Returns:
        For temperature 1 and prior 0, bit for bit the output of `predict_images`; for 1 and 1, its output under the
        uniform prior.
    """
    logits, layers = trial.logits, trial.layers
    if prior != 0:
        present = trial.implied > 0
        shift = torch.where(present, prior * (trial.uniform.log() - trial.implied.log()), 0.0)
        logits = logits.double() + shift
        if trial.head is not None:
            target = torch.where(present, trial.implied * shift.exp(), 0.0)
            layers = trial.head.under(target / target.sum()).layers
    log_p = layers.log_probabilities(logits[None])[0]
    if temperature != 1:
        log_p = (log_p.double() / temperature).log_softmax(0)
    return [float(p) for p in log_p.exp().float()]


def decided(trial: Trial) -> str:
    """Return the class that the head chooses after its thresholds and shifts, if any, as `predict_images` does."""
    log_p = trial.layers.log_probabilities(trial.logits[None])
    return trial.class_names[int(trial.layers.decide(log_p))]


@lru_cache(maxsize=64)
def _predict(image: Path, name: str, store: Path, key: str, device: str, plugins: tuple[Path, ...]) -> Trial:
    predictor = _predictor(run_folder(store, key) / "head", device, plugins)
    head = predictor.head
    if isinstance(head, Ensemble):
        raise ValueError(f"Run {key} is an ensemble, but only single heads can be tried. Choose one of its members.")
    pixels = decode_file(image, background=predictor.background, intensity_range=predictor.intensity_range)
    logits = head.logits(predictor.vectors([predictor.prepare(name, pixels)]))[0]
    return Trial(key, head.class_names, logits, head.priors.implied, head.uniform_prior(), head.layers, head)


@lru_cache(maxsize=4)
def _predictor(folder: Path, device: str, plugins: tuple[Path, ...]) -> Predictor:
    return open_predictor(folder, device=device, plugins=plugins)
