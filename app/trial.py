"""One image on one head: its logits, and its probabilities under another temperature or class prior."""

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
    """What a head says of an image.

    Attributes:
        key: the run.
        class_names: C names.
        logits: [C] as the head gives them, under the prior it carries; -inf for classes that were never trained.
        implied: [C] that prior.
        uniform: [C] equal over the trained classes.
        layers: the head's own calibration.
        head: what fits it anew for another prior; None where none can.
    """

    key: str
    class_names: tuple[str, ...]
    logits: Tensor
    implied: Tensor
    uniform: Tensor
    layers: Layers
    head: TrainedHead | None = None


def best_run(store: Path, keys: Mapping[int, str]) -> str:
    """The run of the seed with the best macro F1 on the selection rows, the first where none has one.

    Raises:
        StoreError: a run is missing.
    """
    return best_of([read_record(store, key) for key in keys.values()]).key


def try_image(
    image: Path, name: str, store: Path, keys: Mapping[int, str], device: str, plugins: tuple[Path, ...] = ()
) -> Trial:
    """Embed an image with the backbone of a side's best run, and give it to the head, as `predict_images` does.

    What was tried is kept, so that an image file must keep its content.

    Args:
        image: where its bytes are.
        name: how its file is called, by which views of it are drawn.
        store: the run store.
        keys: run key by seed.
        device: where the backbone computes, such as cpu or cuda.
        plugins: files of heads that may be run.

    Raises:
        ValueError: the image cannot be decoded, or the head's backbone cannot be loaded or gives other vectors here.
    """
    return _tried(image, name, store, best_run(store, keys), device, plugins)


def probabilities(trial: Trial, temperature: float, prior: float) -> list[float]:
    """Probabilities [C] of the calibrated head at another temperature, for a prior from its own to the uniform one.

    Args:
        trial: the head's answer.
        temperature: 1 leaves the head's own.
        prior: 0 is the head's own, 1 the uniform one; between them lie their geometric means, normalised.

    Returns:
        At 1 and 0 bit for bit what `predict_images` says, and at 1 and 1 what it says under the uniform prior.
    """
    logits, layers = trial.logits, trial.layers
    if prior != 0:
        present = trial.implied > 0
        moved = torch.where(present, prior * (trial.uniform.log() - trial.implied.log()), 0.0)
        logits = logits.double() + moved
        if trial.head is not None:
            target = torch.where(present, trial.implied * moved.exp(), 0.0)
            layers = trial.head.under(target / target.sum()).layers
    log_p = layers.log_probabilities(logits[None])[0]
    if temperature != 1:
        log_p = (log_p.double() / temperature).log_softmax(0)
    return [float(p) for p in log_p.exp().float()]


def decided(trial: Trial) -> str:
    """The class that the head chooses, after thresholds and shifts where it has any, as `predict_images` does."""
    log_p = trial.layers.log_probabilities(trial.logits[None])
    return trial.class_names[int(trial.layers.decide(log_p))]


@lru_cache(maxsize=64)
def _tried(image: Path, name: str, store: Path, key: str, device: str, plugins: tuple[Path, ...]) -> Trial:
    predictor = _predictor(run_folder(store, key) / "head", device, plugins)
    head = predictor.head
    if isinstance(head, Ensemble):
        raise ValueError(f"one head is tried at a time, however: run {key} is an ensemble. Choose one of its members.")
    pixels = decode_file(image, background=predictor.background, intensity_range=predictor.intensity_range)
    logits = head.logits(predictor.vectors([predictor.prepare(name, pixels)]))[0]
    return Trial(key, head.class_names, logits, head.priors.implied, head.uniform_prior(), head.layers, head)


@lru_cache(maxsize=4)
def _predictor(folder: Path, device: str, plugins: tuple[Path, ...]) -> Predictor:
    return open_predictor(folder, device=device, plugins=plugins)
