"""The bundle: a folder with everything that inference needs, and nothing else.

- card.json: class names in order, recipes, temperatures, priors, spec, metrics, versions, SHA-256 of the other files
- head.safetensors: every number of the head
- canary.png: an image whose vector and logits are known, where the recipe is known
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from heads.card import FORMAT_VERSION, PRIOR_FIELDS, Card, card_of
from heads.trained import Calibration, Priors, TrainedHead

CARD, TENSORS, PICTURE = "card.json", "head.safetensors", "canary.png"


class BundleError(ValueError):
    """A folder is no bundle, or one that was changed, damaged or written by another version."""


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
    files = {TENSORS: tensor_bytes(_tensors(head, canary))} | ({PICTURE: canary.png} if canary else {})
    for name, content in files.items():
        (partial / name).write_bytes(content)
    card = card_of(head, {name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    text = json.dumps(card.model_dump(mode="json"), indent=1, sort_keys=True, allow_nan=False)
    (partial / CARD).write_text(text, encoding="utf-8")
    partial.rename(folder)


def load(folder: Path) -> Bundle:
    """Read a bundle; its files must have the digests of its card, and its canary the logits it was exported with.

    Raises:
        BundleError: the folder is no bundle, of another format version, or was changed.
    """
    card = _read_card(folder)
    files = {name: _read_file(folder, name, digest) for name, digest in card.sha256.items()}
    try:
        tensors = load_tensors(files[TENSORS])
        head = _head(card, tensors)
        canary = _canary(card, tensors, files)
    except (KeyError, RuntimeError, SafetensorError) as error:
        raise BundleError(
            f"the tensors of a bundle must fit its card, however: in {folder} they do not "
            f"({type(error).__name__}: {error}). Export it again."
        ) from error
    if canary is not None:
        _check_logits(head, canary, tensors["canary.logits"], folder)
    return Bundle(head, canary)


def _read_card(folder: Path) -> Card:
    try:
        tree = json.loads((folder / CARD).read_text(encoding="utf-8"))
        version = tree.get("format_version") if isinstance(tree, dict) else None
        if version != FORMAT_VERSION:
            raise BundleError(
                f"this version reads bundles of format {FORMAT_VERSION}, however: {folder} has format {version!r}. "
                "Export it again, or install the version that wrote it."
            )
        return Card.model_validate(tree)
    except OSError as error:
        raise BundleError(
            f"a bundle is a folder with {CARD} and {TENSORS}, however: {folder} has no {CARD} that can be read. "
            "Give the folder that `frostbench export` wrote."
        ) from error
    except (json.JSONDecodeError, UnicodeDecodeError, ValidationError) as error:
        raise BundleError(
            f"{CARD} must be as `frostbench export` wrote it, however: that of {folder} is not ({error}). "
            "Export it again."
        ) from error


def _read_file(folder: Path, name: str, digest: str) -> bytes:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(
            f"a bundle holds every file of its card, however: {name} of {folder} cannot be read. Export it again."
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise BundleError(
            f"the files of a bundle must be as they were exported, however: {name} of {folder} was changed. "
            "Export it again."
        )
    return content


def _tensors(head: TrainedHead, canary: Canary | None) -> dict[str, Tensor]:
    found = {f"head.{name}": value.contiguous() for name, value in head.head.state_dict().items()}
    found |= {f"prior.{name}": getattr(head.priors, name) for name in PRIOR_FIELDS} | {"shift": head.shift}
    if head.calibration is not None:
        found |= {"calibration.logits": head.calibration.logits, "calibration.labels": head.calibration.labels}
    if canary is not None:
        found |= {f"canary.vector.{name}": canary.vectors[name].float() for name in head.columns}
        found["canary.logits"] = head.logits({name: canary.vectors[name][None] for name in head.columns})[0]
    return {name: value.clone() for name, value in found.items()}


def _head(card: Card, tensors: Mapping[str, Tensor]) -> TrainedHead:
    state = {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}
    shapes = {name: value.shape for name, value in state.items()}
    module = card.head.blank(len(state["preprocess.mean"]), len(card.class_names), shapes)
    module.load_state_dict(state)
    calibration = None
    if card.calibrated:
        calibration = Calibration(tensors["calibration.logits"], tensors["calibration.labels"])
    return TrainedHead(
        spec=card.head,
        head=module.eval(),
        columns=card.columns,
        class_names=card.class_names,
        priors=Priors(*(tensors[f"prior.{name}"] for name in PRIOR_FIELDS)),
        shift=tensors["shift"],
        temperature=card.temperature,
        calibration=calibration,
        recipes=card.recipes,
        facts=card.facts,
    )


def _canary(card: Card, tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> Canary | None:
    if PICTURE not in files:
        return None
    return Canary(files[PICTURE], {name: tensors[f"canary.vector.{name}"] for name in card.columns})


def _check_logits(head: TrainedHead, canary: Canary, wanted: Tensor, folder: Path) -> None:
    found = head.logits({name: vector[None] for name, vector in canary.vectors.items()})[0]
    if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=False):
        raise BundleError(
            "a bundle must give the logits it was exported with, however: for its canary they differ by up to "
            f"{float((found - wanted).abs().max()):.3g} in {folder}. Install the versions named in {CARD}."
        )
