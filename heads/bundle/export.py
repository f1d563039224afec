"""The bundle: a folder with everything that inference needs, and nothing else.

- card.json: class names in order, recipes, what follows the logits, priors, spec, metrics, versions, size and SHA-256
  of the other files, and the SHA-256 of itself
- head.safetensors: every number of the head
- canary.png: an image whose vector and logits are known, where the recipe is known

The bundle of an ensemble holds ensemble.json, and in member-0, member-1 … a bundle of each member.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.heads.bundle.card import (
    ENSEMBLE_FORMAT,
    HEAD_FORMAT,
    Card,
    EnsembleCard,
    FileName,
    card_of,
    ensemble_card_of,
)
from frostbench.heads.bundle.code import check_named_files, run_named
from frostbench.heads.bundle.files import (
    CARD,
    CARD_BYTES,
    ENSEMBLE,
    PICTURE,
    PICTURE_BYTES,
    TENSORS,
    digest,
    not_as_written,
    read_card_tree,
    read_stated,
)
from frostbench.heads.bundle.files import BundleError as BundleError
from frostbench.heads.bundle.tensors import check_finite, head_from, tensors_of
from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.trained import TrainedHead

AnyCard = TypeVar("AnyCard", Card, EnsembleCard)


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
    """A loaded bundle: the head, or the ensemble of heads, and, where it travelled, the canary.

    Attributes:
        head: what predicts.
        canary: None where none travelled.
        notes: sentences about what could not be checked.
    """

    head: Predictive
    canary: Canary | None
    notes: tuple[str, ...] = ()


def save(head: Predictive, folder: Path, canary: Canary | None = None) -> None:
    """Write a bundle to a new folder, whole or not at all; what an export that was killed left of it is deleted.

    Args:
        head: a head, or an ensemble, whose members are written as bundles of their own.
        folder: where to.
        canary: with the vectors of every column that is read.

    Raises:
        FileExistsError: the folder exists already.
        OutputError: it cannot be made.
    """
    check_new_folder(folder, "a bundle")
    with new_folder(folder, "a bundle") as partial:
        fill(head, partial, canary)


def fill(head: Predictive, folder: Path, canary: Canary | None = None) -> None:
    """Write the files of a bundle into a folder, which is made where it is missing; for who makes the folder whole."""
    if isinstance(head, Ensemble):
        members = enumerate(head.members)
        folder.mkdir(exist_ok=True)
        digests = {f"member-{n}": _write(each, folder / f"member-{n}", canary) for n, each in members}
        _write_card(ensemble_card_of(head, digests), folder / ENSEMBLE)
    else:
        _write(head, folder, canary)


def _write(head: TrainedHead, folder: Path, canary: Canary | None) -> str:
    """Write the files of a head; the digest of its card."""
    folder.mkdir(exist_ok=True)
    files: dict[FileName, bytes] = {"head.safetensors": tensor_bytes(_tensors(head, canary))}
    files |= {"canary.png": canary.png} if canary else {}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return _write_card(card_of(head, files), folder / CARD)


def _write_card(card: Card | EnsembleCard, path: Path) -> str:
    text = json.dumps(card.model_dump(mode="json"), indent=1, sort_keys=True, allow_nan=False).encode()
    path.write_bytes(text)
    return digest(text)


def load(folder: Path, plugins: Sequence[str | Path] = ()) -> Bundle:
    """Read a bundle; its files must have the digests of its card, and its canary the logits it was exported with.

    No code of a bundle is run, nor any that it names. A head whose classifier is a plugin needs its file among
    `plugins`, with the SHA-256 that the card states; one that was run in this process before need not be named again.

    Args:
        folder: of the bundle.
        plugins: .py files that may be run, wherever they are; those that the bundle does not need are not.

    Raises:
        BundleError: the folder is no bundle, of another format version, or was changed.
        PluginError: the head is a plugin whose file was not named, or a file that was named is missing or does not run.
    """
    return _load_ensemble(folder, plugins) if (folder / ENSEMBLE).is_file() else _load_one(folder, plugins)[1]


def load_head(folder: Path, plugins: Sequence[str | Path] = ()) -> TrainedHead:
    """Read a bundle of one head, as `load` does.

    Raises:
        BundleError: as in `load`, or the bundle is one of an ensemble.
    """
    if (folder / ENSEMBLE).is_file():
        raise BundleError(f"one head is needed here, however: {folder} holds an ensemble. Give one of its members.")
    return _load_one(folder, plugins)[0]


def _load_ensemble(folder: Path, plugins: Sequence[str | Path]) -> Bundle:
    card = _read_card(folder, EnsembleCard)
    for name, stated in card.members.items():
        _check_member(folder, name, stated)
    names = sorted(card.members, key=lambda name: int(name.split("-")[1]))
    found = [_load_one(folder / name, plugins) for name in names]
    try:
        ensemble = Ensemble(tuple(head for head, _ in found), card.facts)
    except ValueError as error:
        raise BundleError(f"the members in {folder} are no ensemble: {error} Export it again.") from error
    if (ensemble.class_names, ensemble.columns) != (card.class_names, card.columns):
        raise BundleError(
            f"the members of an ensemble must fit {ENSEMBLE}, however: in {folder} they have other classes or columns. "
            "Export it again."
        )
    canaries = [bundle.canary for _, bundle in found]
    known = [canary for canary in canaries if canary is not None]
    notes = tuple(dict.fromkeys([*_unsealed(card, folder), *(note for _, bundle in found for note in bundle.notes)]))
    if len(known) < len(canaries):
        return Bundle(ensemble, None, notes)
    vectors = {name: v for each in known for name, v in each.vectors.items()}
    return Bundle(ensemble, Canary(known[0].png, vectors), notes)


def _check_member(folder: Path, name: str, stated: str) -> None:
    """Refuse a member that is no folder of the bundle, or whose card is another one."""
    if (folder / name).is_symlink():
        raise BundleError(f"a bundle holds its members, however: {name} of {folder} is a link. Export it again.")
    read_stated(folder, f"{name}/{CARD}", stated, None, CARD_BYTES)


def _unsealed(card: Card | EnsembleCard, folder: Path) -> list[str]:
    """What is to be said of a card that has no digest of its own."""
    if card.card_sha256 is not None:
        return []
    return [
        f"{folder} was exported by an earlier version (format {card.format_version}), whose card has no digest: a "
        "change of its class names, recipe or temperature would not be noticed. Train and export it again to have one."
    ]


def _load_one(folder: Path, plugins: Sequence[str | Path]) -> tuple[TrainedHead, Bundle]:
    card = _read_card(folder, Card)
    run_named(card.head.classifier, plugins, folder)
    files: dict[str, bytes] = {
        name: read_stated(folder, name, stated, card.sizes.get(name), PICTURE_BYTES if name == PICTURE else None)
        for name, stated in card.sha256.items()
    }
    try:
        tensors = load_tensors(files[TENSORS])
        check_finite(tensors)
        head = head_from(card, tensors)
        canary = _canary(card, tensors, files)
    except (KeyError, RuntimeError, ValueError, SafetensorError) as error:
        raise BundleError(
            f"the tensors of a bundle must fit its card, however: in {folder} they do not "
            f"({type(error).__name__}: {error}). Export it again."
        ) from error
    if canary is not None:
        _check_logits(head, canary, tensors["canary.logits"], folder)
    return head, Bundle(head, canary, tuple(_unsealed(card, folder)))


def _read_card(folder: Path, kind: type[AnyCard]) -> AnyCard:
    file = ENSEMBLE if kind is EnsembleCard else CARD
    tree = read_card_tree(folder, file)
    version, newest = tree.get("format_version"), ENSEMBLE_FORMAT if kind is EnsembleCard else HEAD_FORMAT
    if version not in range(1, newest + 1):
        raise BundleError(
            f"this version reads bundles of format 1 to {newest}, however: {folder} has format {version!r}. Export it "
            "again, or install the version that wrote it."
        )
    try:
        check_named_files(tree)
        return kind.model_validate(tree)
    except ValueError as error:
        raise not_as_written(folder, file, error) from error


def _tensors(head: TrainedHead, canary: Canary | None) -> dict[str, Tensor]:
    found = tensors_of(head)
    if canary is not None:
        found |= {f"canary.vector.{name}": canary.vectors[name].float() for name in head.columns}
        own = {name: canary.vectors[name][None] for name in head.columns}
        found["canary.logits"] = head.without_views().logits(own)[0]
    return {name: value.clone() for name, value in found.items()}


def _canary(card: Card, tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> Canary | None:
    if PICTURE not in files:
        return None
    return Canary(files[PICTURE], {name: tensors[f"canary.vector.{name}"] for name in card.columns})


def _check_logits(head: TrainedHead, canary: Canary, wanted: Tensor, folder: Path) -> None:
    found = head.without_views().logits({name: vector[None] for name, vector in canary.vectors.items()})[0]
    if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=False):
        raise BundleError(
            "a bundle must give the logits it was exported with, however: for its canary they differ by up to "
            f"{float((found - wanted).abs().max()):.3g} in {folder}. Install the versions named in {CARD}."
        )
