"""The bundle: a folder with everything that inference needs, and nothing else.

- card.json: class names in order, recipes, what follows the logits, priors, spec, metrics, versions, SHA-256 of the
  other files
- head.safetensors: every number of the head
- canary.png: an image whose vector and logits are known, where the recipe is known

The bundle of an ensemble holds ensemble.json, and in member-0, member-1 … a bundle of each member.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from heads.bundle_code import check_named_files, run_named
from heads.card import ENSEMBLE_FORMAT, HEAD_FORMAT, Card, EnsembleCard, card_of, ensemble_card_of
from heads.ensemble import Ensemble, Predictive
from heads.tensors import head_from, tensors_of
from heads.trained import TrainedHead
from outputs.places import check_new_folder
from outputs.writing import new_folder

CARD, TENSORS, PICTURE, ENSEMBLE = "card.json", "head.safetensors", "canary.png", "ensemble.json"
_FILES = "|".join(map(re.escape, (CARD, TENSORS, PICTURE)))
BUNDLE_FILE = re.compile(rf"{re.escape(ENSEMBLE)}|(?:member-[0-9]+/)?(?:{_FILES})|member-[0-9]+")
"""What a bundle holds."""


AnyCard = TypeVar("AnyCard", Card, EnsembleCard)


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
    """A loaded bundle: the head, or the ensemble of heads, and, where it travelled, the canary."""

    head: Predictive
    canary: Canary | None


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


def remove(folder: Path) -> None:
    """Delete a bundle, if there is one.

    Raises:
        BundleError: the folder holds anything else than a bundle; nothing was deleted then.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    # The card goes last, so that a removal that is killed can be finished.
    inside = sorted(folder.rglob("*"), key=lambda path: (path.name in (CARD, ENSEMBLE), len(path.parts)))
    names = [path.relative_to(folder).as_posix() for path in inside]
    strange = [path for path, name in zip(inside, names, strict=True) if not _is_of_bundle(path, name)]
    if folder.is_symlink() or strange or not {CARD, ENSEMBLE} & set(names):
        held = f"{folder} holds {strange[0].name}" if strange else f"{folder} is none"
        raise BundleError(f"only a bundle is replaced, however: {held}. Move it elsewhere, or choose another name.")
    for path in inside:
        if not path.is_dir():
            path.unlink()
    for path in [*(path for path in inside if path.is_dir()), folder]:
        path.rmdir()


def _is_of_bundle(path: Path, name: str) -> bool:
    """Whether a path in a folder is one that a bundle holds: a regular file, or the folder of a member."""
    is_member = name.startswith("member-") and "/" not in name
    is_plain = path.is_dir() if is_member else path.is_file()
    return is_plain and not path.is_symlink() and BUNDLE_FILE.fullmatch(name) is not None


def _write(head: TrainedHead, folder: Path, canary: Canary | None) -> str:
    """Write the files of a head; the digest of its card."""
    folder.mkdir(exist_ok=True)
    files = {TENSORS: tensor_bytes(_tensors(head, canary))} | ({PICTURE: canary.png} if canary else {})
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return _write_card(card_of(head, {name: _digest(content) for name, content in files.items()}), folder / CARD)


def _write_card(card: Card | EnsembleCard, path: Path) -> str:
    text = json.dumps(card.model_dump(mode="json"), indent=1, sort_keys=True, allow_nan=False).encode()
    path.write_bytes(text)
    return _digest(text)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    for name, digest in card.members.items():
        _read_file(folder, f"{name}/{CARD}", digest)
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
    if len(known) < len(canaries):
        return Bundle(ensemble, None)
    return Bundle(ensemble, Canary(known[0].png, {name: v for each in known for name, v in each.vectors.items()}))


def _load_one(folder: Path, plugins: Sequence[str | Path]) -> tuple[TrainedHead, Bundle]:
    card = _read_card(folder, Card)
    run_named(card.head.classifier, plugins, folder)
    files = {name: _read_file(folder, name, digest) for name, digest in card.sha256.items()}
    try:
        tensors = load_tensors(files[TENSORS])
        head = head_from(card, tensors)
        canary = _canary(card, tensors, files)
    except (KeyError, RuntimeError, SafetensorError) as error:
        raise BundleError(
            f"the tensors of a bundle must fit its card, however: in {folder} they do not "
            f"({type(error).__name__}: {error}). Export it again."
        ) from error
    if canary is not None:
        _check_logits(head, canary, tensors["canary.logits"], folder)
    return head, Bundle(head, canary)


def _read_card(folder: Path, kind: type[AnyCard]) -> AnyCard:
    file = ENSEMBLE if kind is EnsembleCard else CARD
    try:
        tree = json.loads((folder / file).read_text(encoding="utf-8"))
        version = tree.get("format_version") if isinstance(tree, dict) else None
        known = (ENSEMBLE_FORMAT,) if kind is EnsembleCard else (1, HEAD_FORMAT)
        if version not in known:
            raise BundleError(
                f"this version reads bundles of format {' and '.join(map(str, known))}, however: {folder} has format "
                f"{version!r}. Export it again, or install the version that wrote it."
            )
        check_named_files(tree)
        return kind.model_validate(tree)
    except OSError as error:
        raise BundleError(
            f"a bundle is a folder with {CARD} and {TENSORS}, however: {folder} has no {file} that can be read. "
            "Give the folder that `frostbench export` wrote."
        ) from error
    except BundleError:
        raise
    except ValueError as error:
        raise BundleError(
            f"{file} must be as `frostbench export` wrote it, however: that of {folder} is not ({error}). "
            "Export it again."
        ) from error


def _read_file(folder: Path, name: str, digest: str) -> bytes:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(
            f"a bundle holds every file of its card, however: {name} of {folder} cannot be read. Export it again."
        ) from error
    if _digest(content) != digest:
        raise BundleError(
            f"the files of a bundle must be as they were exported, however: {name} of {folder} was changed. "
            "Export it again."
        )
    return content


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
