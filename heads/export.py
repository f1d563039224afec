"""The bundle: a folder with everything that inference needs, and nothing else.

- card.json: class names in order, recipes, temperatures, priors, spec, metrics, versions
- head.safetensors: every number of the head
- canary.png: an image whose vector and logits are known, where the recipe is known
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save_file as save_tensors
from torch import Tensor

from heads.head import HeadSpec
from heads.trained import Calibration, Priors, TrainedHead

FORMAT_VERSION = 1
PRIOR_FIELDS = ("counts", "raw", "effective", "implied")


@dataclass(frozen=True)
class Canary:
    """An image whose vectors are known, to notice a backbone or a decoder that changed.

    Attributes:
        png: the image, PNG-encoded.
        vectors: column name to its vector [D].
    """

    png: bytes
    vectors: Mapping[str, Tensor]


@dataclass(frozen=True)
class Bundle:
    """A loaded bundle: the head and, where it travelled, the canary."""

    head: TrainedHead
    canary: Canary | None


def save(head: TrainedHead, folder: Path, canary: Canary | None = None) -> None:
    """Write a bundle to a new folder, whole or not at all.

    Raises:
        FileExistsError: the folder exists already.
    """
    if folder.exists():
        raise FileExistsError(
            f"a bundle is written to a new folder, however: {folder} exists. Choose another name or remove it."
        )
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_tensors(_tensors(head, canary), partial / "head.safetensors")
    (partial / "card.json").write_text(json.dumps(_card(head), indent=1, sort_keys=True), encoding="utf-8")
    if canary is not None:
        (partial / "canary.png").write_bytes(canary.png)
    partial.rename(folder)


def load(folder: Path) -> Bundle:
    """Read a bundle and check its canary's logits.

    Raises:
        ValueError: the folder is no bundle, is of another format version, or its canary's logits have changed.
    """
    card_path, tensor_path = folder / "card.json", folder / "head.safetensors"
    if not card_path.is_file() or not tensor_path.is_file():
        raise ValueError(
            f"a bundle holds card.json and head.safetensors, however: {folder} does not. "
            "Give the folder that `frostbench export` wrote."
        )
    card = json.loads(card_path.read_text(encoding="utf-8"))
    if card.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"this version reads bundles of format {FORMAT_VERSION}, however: {folder} has format "
            f"{card.get('format_version')!r}. Export it again, or install the version that wrote it."
        )
    tensors = load_file(tensor_path)
    head = _head(card, tensors)
    vectors = {name: tensors[f"canary.vector.{name}"] for name in head.columns if f"canary.vector.{name}" in tensors}
    if not vectors:
        return Bundle(head, None)
    _check_canary(head, vectors, tensors["canary.logits"], folder)
    return Bundle(head, Canary((folder / "canary.png").read_bytes(), vectors))


def _check_canary(head: TrainedHead, vectors: Mapping[str, Tensor], wanted: Tensor, folder: Path) -> None:
    found = head.logits({name: vector[None] for name, vector in vectors.items()})[0]
    if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=False):
        raise ValueError(
            "a bundle must give the logits it was exported with, however: for its canary they differ by up to "
            f"{float((found - wanted).abs().max()):.3g}. The files of {folder} were changed: export it again."
        )


def _tensors(head: TrainedHead, canary: Canary | None) -> dict[str, Tensor]:
    found = {f"head.{name}": value.contiguous() for name, value in head.head.state_dict().items()}
    found |= {f"prior.{name}": getattr(head.priors, name) for name in PRIOR_FIELDS} | {"shift": head.shift}
    if head.calibration is not None:
        found |= {"calibration.logits": head.calibration.logits, "calibration.labels": head.calibration.labels}
    if canary is not None:
        found |= {f"canary.vector.{name}": canary.vectors[name].float() for name in head.columns}
        found["canary.logits"] = head.logits({name: canary.vectors[name][None] for name in head.columns})[0]
    return {name: value.clone() for name, value in found.items()}


def _card(head: TrainedHead) -> dict[str, Any]:
    uniform = head.temperature_for(head.uniform_prior())
    return {
        "format_version": FORMAT_VERSION,
        "class_names": list(head.class_names),
        "columns": list(head.columns),
        "recipes": {name: dict(recipe) for name, recipe in head.recipes.items()},
        "head": head.spec.model_dump(mode="json"),
        "calibrated": head.calibration is not None,
        "temperature": head.temperature,
        "temperature_under_uniform_prior": uniform,
        "priors": {name: getattr(head.priors, name).tolist() for name in PRIOR_FIELDS},
        "facts": dict(head.facts),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of the packages that a head's numbers come from."""
    found = {}
    for name in ("frostbench", "torch", "numpy", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _head(card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> TrainedHead:
    spec = HeadSpec.model_validate(card["head"])
    module = spec.blank(len(tensors["head.preprocess.mean"]), len(card["class_names"]))
    module.load_state_dict({k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")})
    calibration = None
    if card["calibrated"]:
        calibration = Calibration(tensors["calibration.logits"], tensors["calibration.labels"])
    return TrainedHead(
        spec=spec,
        head=module.eval(),
        columns=tuple(card["columns"]),
        class_names=tuple(card["class_names"]),
        priors=Priors(*(tensors[f"prior.{name}"] for name in PRIOR_FIELDS)),
        shift=tensors["shift"],
        temperature=card["temperature"],
        calibration=calibration,
        recipes=card["recipes"],
        facts=card["facts"],
    )
