"""Saving and loading bundles: folders with everything that inference needs, and nothing else.

- card.json: class names in order, recipes, post-hoc layers, priors, spec, metrics, versions, size and SHA-256 of the
  other files, and the SHA-256 of the card
- head.safetensors: all tensors of the head
- canary.png: an image with known vectors and logits, if the recipe is known

The bundle of an ensemble holds ensemble.json, and the bundles of its members in member-0, member-1 …
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensor_bytes

from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.heads.bundle.canary import LOGITS, canary_of, canary_tensors, check_logits
from frostbench.heads.bundle.canary import Canary as Canary
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
class Bundle:
    """A loaded bundle.

    Attributes:
        head: the head, or the ensemble of heads.
        canary: its canary, or None.
        notes: notes on what could not be checked.
    """

    head: Predictive
    canary: Canary | None
    notes: tuple[str, ...] = ()


def save(head: Predictive, folder: Path, canary: Canary | None = None) -> None:
    """Write a bundle to a new folder, atomically; leftovers of an interrupted export are deleted.

    Args:
        head: a head, or an ensemble, whose members are written as separate bundles.
        folder: the new folder.
        canary: an image with vectors of all columns that the head reads, or None.

    Raises:
        FileExistsError: the folder already exists.
        OutputError: it cannot be created.
    """
    check_new_folder(folder, "a bundle")
    with new_folder(folder, "a bundle") as partial:
        fill(head, partial, canary)


def fill(head: Predictive, folder: Path, canary: Canary | None = None) -> None:
    """Write the files of a bundle into a folder, without the atomicity of `save`."""
    if isinstance(head, Ensemble):
        members = enumerate(head.members)
        folder.mkdir(exist_ok=True)
        digests = {f"member-{n}": _write(member, folder / f"member-{n}", canary) for n, member in members}
        _write_card(ensemble_card_of(head, digests), folder / ENSEMBLE)
    else:
        _write(head, folder, canary)


def _write(head: TrainedHead, folder: Path, canary: Canary | None) -> str:
    """Write the files of a head, and return the digest of its card."""
    folder.mkdir(exist_ok=True)
    tensors = tensors_of(head) | (canary_tensors(head, canary) if canary else {})
    content = tensor_bytes({name: value.clone() for name, value in tensors.items()})
    files: dict[FileName, bytes] = {"head.safetensors": content}
    files |= {"canary.png": canary.png} if canary else {}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return _write_card(card_of(head, files), folder / CARD)


def _write_card(card: Card | EnsembleCard, path: Path) -> str:
    text = json.dumps(card.model_dump(mode="json"), indent=1, sort_keys=True, allow_nan=False).encode()
    path.write_bytes(text)
    return digest(text)


def load(folder: Path, plugins: Sequence[str | Path] = ()) -> Bundle:
    """Load a bundle, and check the digests of its files and the logits of its canary.

    No code in a bundle or named by it is run. If the classifier is a plugin, its file must be among `plugins`, with the
    SHA-256 that the card states, unless it was already run in this process.

    Args:
        folder: the bundle.
        plugins: .py files that may be run, at any path; only the one that the bundle needs is run.

    Raises:
        BundleError: the folder is not a bundle, has an unknown format version, or was changed.
        PluginError: the head is a plugin whose file was not named, or a named file is missing or fails to run.
    """
    return _load_ensemble(folder, plugins) if (folder / ENSEMBLE).is_file() else _load_one(folder, plugins)[1]


def load_head(folder: Path, plugins: Sequence[str | Path] = ()) -> TrainedHead:
    """Load a bundle of a single head, as `load` does.

    Raises:
        BundleError: as in `load`, or the bundle holds an ensemble.
    """
    if (folder / ENSEMBLE).is_file():
        raise BundleError(f"A single head is required, but {folder} holds an ensemble. Pass one of its members.")
    return _load_one(folder, plugins)[0]


def _load_ensemble(folder: Path, plugins: Sequence[str | Path]) -> Bundle:
    card = _read_card(folder, EnsembleCard)
    for name, stated in card.members.items():
        _check_member(folder, name, stated)
    names = sorted(card.members, key=lambda name: int(name.split("-")[1]))
    members = [_load_one(folder / name, plugins) for name in names]
    try:
        ensemble = Ensemble(tuple(head for head, _ in members), card.facts)
    except ValueError as error:
        raise BundleError(f"The members in {folder} do not form an ensemble: {error} Export it again.") from error
    if (ensemble.class_names, ensemble.columns) != (card.class_names, card.columns):
        raise BundleError(
            f"The members of an ensemble must match {ENSEMBLE}, but in {folder} they have other classes or columns. "
            "Export it again."
        )
    canaries = [bundle.canary for _, bundle in members]
    known = [canary for canary in canaries if canary is not None]
    notes = tuple(dict.fromkeys([*_unsealed(card, folder), *(note for _, bundle in members for note in bundle.notes)]))
    if len(known) < len(canaries):
        return Bundle(ensemble, None, notes)
    vectors = {name: vector for canary in known for name, vector in canary.vectors.items()}
    return Bundle(ensemble, Canary(known[0].png, vectors), notes)


def _check_member(folder: Path, name: str, stated: str) -> None:
    """Reject a member that is a link, or whose card was changed."""
    if (folder / name).is_symlink():
        raise BundleError(f"A bundle must contain its members, but {name} in {folder} is a link. Export it again.")
    read_stated(folder, f"{name}/{CARD}", stated, None, CARD_BYTES)


def _unsealed(card: Card | EnsembleCard, folder: Path) -> list[str]:
    """Return a note if a card has no digest."""
    if card.card_sha256 is not None:
        return []
    return [
        f"{folder} was exported by an earlier version (format {card.format_version}) whose card has no digest, so "
        "changes of its class names, recipe or temperature cannot be detected. Train and export the head again."
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
        canary = canary_of(card, tensors, files)
    except (KeyError, RuntimeError, ValueError, SafetensorError) as error:
        raise BundleError(
            f"The tensors of a bundle must match its card, but in {folder} they do not "
            f"({type(error).__name__}: {error}). Export it again."
        ) from error
    if canary is not None:
        check_logits(head, canary, tensors[LOGITS], folder)
    return head, Bundle(head, canary, tuple(_unsealed(card, folder)))


def _read_card(folder: Path, kind: type[AnyCard]) -> AnyCard:
    file = ENSEMBLE if kind is EnsembleCard else CARD
    tree = read_card_tree(folder, file)
    version, newest = tree.get("format_version"), ENSEMBLE_FORMAT if kind is EnsembleCard else HEAD_FORMAT
    if version not in range(1, newest + 1):
        raise BundleError(
            f"This version reads bundles of formats 1 to {newest}, but {folder} has format {version!r}. Export it "
            "again, or install the version that wrote it."
        )
    try:
        check_named_files(tree)
        return kind.model_validate(tree)
    except ValueError as error:
        raise not_as_written(folder, file, error) from error
