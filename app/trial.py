"""One image on one head: its logits, and its probabilities under another temperature or class prior."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.inference import Predictor, open_predictor
from benchmarks.record import best_of
from benchmarks.store import read_record, run_folder
from embedcache.decode import decode_file
from heads.ensemble import Ensemble
from heads.layers import Layers


@dataclass(frozen=True)
class Trial:
    """What a head says of an image.

    Attributes:
        key: the run.
        class_names: C names.
        logits: [C] under the prior the head carries; -inf for classes that were never trained.
        implied: [C] that prior.
        uniform: [C] equal over the trained classes.
        layers: the head's own calibration.
    """

    key: str
    class_names: tuple[str, ...]
    logits: Tensor
    implied: Tensor
    uniform: Tensor
    layers: Layers


def best_run(store: Path, keys: Mapping[int, str]) -> str:
    """The run of the seed with the best macro F1 on the selection rows, the first where none has one.

    Raises:
        StoreError: a run is missing.
    """
    return best_of([read_record(store, key) for key in keys.values()]).key


def try_image(image: str, store: Path, keys: Mapping[int, str], device: str, plugins: tuple[Path, ...] = ()) -> Trial:
    """Embed an image with the backbone of a side's best run, and give it to the head; `plugins` may be run.

    Raises:
        ValueError: the image cannot be decoded, or the head's backbone cannot be loaded or gives other vectors here.
    """
    key = best_run(store, keys)
    predictor = _predictor(run_folder(store, key) / "head", device, plugins)
    head = predictor.head
    if isinstance(head, Ensemble):
        raise ValueError(f"one head is tried at a time, however: run {key} is an ensemble. Choose one of its members.")
    pixels = decode_file(Path(image), background=predictor.background, intensity_range=predictor.intensity_range)
    logits = head.logits(predictor.vectors([predictor.look(Path(image).name, pixels)]))[0].double()
    return Trial(key, head.class_names, logits, head.priors.implied, head.uniform_prior(), head.layers)


def probabilities(trial: Trial, temperature: float, prior: float) -> list[float]:
    """Probabilities [C] of the calibrated head at another temperature, for a prior from its own to the uniform one.

    Args:
        trial: the head's answer.
        temperature: 1 leaves the head's own.
        prior: 0 is the head's own, 1 the uniform one; between them lie their geometric means, normalised.
    """
    present = trial.implied > 0
    shift = torch.where(present, prior * (trial.uniform.log() - trial.implied.log()), 0.0)
    found = (trial.layers.log_probabilities((trial.logits + shift)[None])[0] / temperature).softmax(0)
    return [float(p) for p in found]


@lru_cache(maxsize=4)
def _predictor(folder: Path, device: str, plugins: tuple[Path, ...]) -> Predictor:
    return open_predictor(folder, device=device, plugins=plugins)
