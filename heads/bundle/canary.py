"""Canaries: images with known vectors and logits, which reveal a changed backbone, decoder or library."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from frostbench.heads.bundle.card import Card
from frostbench.heads.bundle.files import CARD, PICTURE, BundleError
from frostbench.heads.trained import TrainedHead

LOGITS = "canary.logits"


@dataclass(frozen=True)
class Canary:
    """An image whose vectors are known.

    Attributes:
        png: the image, PNG-encoded.
        vectors: column name to its vector [D].
    """

    png: bytes
    vectors: Mapping[str, Tensor]


def canary_tensors(head: TrainedHead, canary: Canary) -> dict[str, Tensor]:
    """Return the canary's vectors and the head's logits for them, by tensor name."""
    vectors = {f"canary.vector.{name}": canary.vectors[name].float() for name in head.columns}
    return vectors | {LOGITS: _logits(head, {name: canary.vectors[name] for name in head.columns})}


def canary_of(card: Card, tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> Canary | None:
    """Return the canary of a bundle, or None if it has none."""
    if PICTURE not in files:
        return None
    return Canary(files[PICTURE], {name: tensors[f"canary.vector.{name}"] for name in card.columns})


def check_logits(head: TrainedHead, canary: Canary, expected: Tensor, folder: Path) -> None:
    """Check that a head gives its canary the logits [C] that it had at export.

    Raises:
        BundleError: the logits differ.
    """
    logits = _logits(head, canary.vectors)
    if not torch.allclose(logits, expected, rtol=1e-3, atol=1e-3, equal_nan=False):
        raise BundleError(
            f"A bundle must reproduce the logits of its export, but in {folder} those of its canary differ by up to "
            f"{float((logits - expected).abs().max()):.3g}. Install the versions named in {CARD}."
        )


def _logits(head: TrainedHead, vectors: Mapping[str, Tensor]) -> Tensor:
    return head.without_views().logits({name: vector[None] for name, vector in vectors.items()})[0]
