"""Extraction from JPEG files to vectors on disk, compared with an ideal and with the loops of other tools.

Two backbones on the CPU: the bundled EfficientNet-Lite0, and DINOv3 ViT-S/16 at 224 pixels with random weights. The
images are crops of photographs, or those of a folder. Each round embeds other images, with all sides in turn. A side
starts with the files and a loaded model. Ours also hashes, checks, converts, writes and reads back its cache, and
embeds the canary.

- share: compared with the ideal, which decodes and resizes all images with every core and then runs only the forward
pass. If decoding is hidden behind the forward pass, ours can exceed it.
- hf_pipeline, embetter, data_loader, clip_retrieval: compared with `frostbench.benchmarks.speed.peers`. The unit states
the smallest cosine between our vector of an image and the peer's, after subtracting our mean vector from both, since
all images look alike to random weights.
- best_peer: compared with the fastest of them.

All sides multiply in float32, the default of the peers. On CPUs with bfloat16, which is our default there, also:

- bfloat16: ours in float32 compared with ours in bfloat16, with the smallest cosine between the two, as is and centred.
- best_peer_bfloat16: the best peer compared with ours in bfloat16, if the peer's vectors match ours within the same
cosine.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from frostbench.benchmarks.speed.harness import Figure, figure, turns
from frostbench.benchmarks.speed.peers import Loop, loops
from frostbench.benchmarks.speed.photos import photos, pieces
from frostbench.benchmarks.speed.subjects import Subject, bundled, random_timm
from frostbench.embedcache.decode import PIXEL_LIMIT
from frostbench.embedcache.extraction.backbone_group import backbone_group
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.pipeline import Decoded, decode_ahead, usable_cores
from frostbench.embedcache.items import Listing
from frostbench.embedcache.storage.store import shard_path
from frostbench.embedcache.storage.vectors import read_vectors

SHARE_GOAL, BEST_GOAL, ALIKE = 0.9, 2.0, 0.999
LITE, VIT, VIT_SIZE = "efficientnet_lite0", "vit_small_patch16_dinov3", 224


@dataclass(frozen=True)
class Plan:
    """Images per round, rounds with the ideal, and rounds with all peers."""

    images: int
    shares: int
    peers: int


PLANS = {"lite0": Plan(256, 8, 4), "dinov3_s": Plan(128, 8, 4)}
QUICK = {"lite0": Plan(48, 4, 2), "dinov3_s": Plan(24, 3, 2)}
IMAGES, QUICK_IMAGES = 1_024, 192


def figures(quick: bool, images: Path | None = None) -> Iterator[Figure]:
    """Yield six to eight figures per backbone; `quick` embeds fewer images. `images` is a source of images."""
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        root = Path(folder)
        listing = photos(root / "images", QUICK_IMAGES if quick else IMAGES, images)
        loaders: dict[str, Callable[[str], Subject]] = {
            "lite0": lambda autocast: bundled(LITE, autocast),
            "dinov3_s": lambda autocast: random_timm(VIT, VIT_SIZE, root, autocast=autocast),
        }
        for name, load in loaders.items():
            fast = load("auto")
            halved = fast if fast.backbone.recipe.autocast == "bfloat16" else None
            plan = QUICK[name] if quick else PLANS[name]
            yield from measured(f"extract.{name}", load("float32"), listing, plan, halved)


def measured(
    name: str, subject: Subject, listing: Listing, plan: Plan, halved: Subject | None = None
) -> Iterator[Figure]:
    """Yield the share of the ideal, a figure per peer, and one for the best of them.

    Args:
        name: prefix of the figures' names.
        subject: the model in float32.
        listing: the images.
        plan: amount of work.
        halved: the model in bfloat16, which adds one or two figures, or None.

    Raises:
        ValueError: a peer's vectors differ from ours.
    """
    chunks = list(pieces(listing, plan.images))
    warm = next(pieces(listing, subject.backbone.batch))
    # Round 0 is short and not measured.
    rounds = [warm, *(chunks[i % len(chunks)] for i in range(max(plan.shares, plan.peers)))]
    unit = f"seconds / our seconds for {len(chunks[0].items)} images"
    taken = turns(
        {"ours": lambda i: ours(subject, rounds[i]), "ideal": lambda i: ideal(subject, rounds[i])}, plan.shares
    )
    embedded = len({item.id for chunk in rounds[1:] for item in chunk.items})
    description = f"ideal {unit}, {embedded} in all"
    yield _paired(f"{name}.share", taken["ours"], taken["ideal"], SHARE_GOAL, description)
    mine = {"ours": subject} if halved is None else {"ours": subject, "bfloat16": halved}
    yield from _against_peers(name, mine, rounds, plan.peers, unit)


def _against_peers(
    name: str, subjects: Mapping[str, Subject], rounds: list[Listing], n_rounds: int, unit: str
) -> Iterator[Figure]:
    last: dict[str, np.ndarray] = {}

    def side(key: str, embed: Callable[[Listing], np.ndarray]) -> Callable[[int], None]:
        def run(i: int) -> None:
            last[key] = embed(rounds[i])

        return run

    peers = {key: side(key, _of_listing(loop)) for key, loop in loops(subjects["ours"]).items()}
    mine = {key: side(key, partial(ours, one)) for key, one in subjects.items()}
    taken = turns(mine | peers, n_rounds)
    cosines = {key: least_cosine(last["ours"], last[key]) for key in peers}
    _check_alike(cosines)
    for key, cosine in cosines.items():
        yield _paired(f"{name}.{key}", taken["ours"], taken[key], 1.0, f"{unit}, cosine {cosine:.6f}")
    best = min(peers, key=lambda key: sum(taken[key]))
    yield _paired(f"{name}.best_peer", taken["ours"], taken[best], BEST_GOAL, f"{best} {unit}")
    if "bfloat16" in mine:
        plain, centred = (least_cosine(last["ours"], last["bfloat16"], centred) for centred in (False, True))
        description = f"ours in float32, {unit}, cosine {plain:.6f}, centred {centred:.6f}"
        yield _paired(f"{name}.bfloat16", taken["bfloat16"], taken["ours"], 1.0, description)
        if (cosine := least_cosine(last["bfloat16"], last[best])) > ALIKE:
            description = f"{best} {unit}, cosine {cosine:.6f}"
            yield _paired(f"{name}.best_peer_bfloat16", taken["bfloat16"], taken[best], BEST_GOAL, description)


def ours(subject: Subject, listing: Listing) -> np.ndarray:
    """Extract a listing to a cache and return its vectors, read back from it."""
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        for _ in extract(listing, subject.backbone, Path(folder) / "cache"):
            pass
        dim = subject.backbone.dims[subject.column]
        return read_vectors([shard_path(Path(folder) / "cache", 0)], subject.column, dim).astype(np.float32)


def ideal(subject: Subject, listing: Listing) -> None:
    """Decode everything with all cores, then embed it with all cores, and drop the vectors."""
    cores = usable_cores()
    outcomes = decode_ahead(listing.items, backbone_group(subject.backbone), PIXEL_LIMIT, cores, ahead=4 * cores)
    prepared = [outcome.image[0] for outcome in outcomes if isinstance(outcome, Decoded)]
    for start in range(0, len(prepared), subject.backbone.batch):
        subject.backbone.embed(torch.stack(prepared[start : start + subject.backbone.batch]))


def least_cosine(ours: np.ndarray, theirs: np.ndarray, centred: bool = True) -> float:
    """Return the smallest cosine between corresponding rows of two matrices [N, D].

    Rows are scaled to norm 1; `centred` then subtracts the mean of ours from both.

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> round(least_cosine(x, 3 * x), 6)
    1.0
    """
    a, b = (x.astype(np.float64) / np.linalg.norm(x, axis=1, keepdims=True) for x in (ours, theirs))
    if centred:
        mean = a.mean(axis=0)
        a, b = a - mean, b - mean
    return float(((a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))).min())


def _check_alike(cosines: Mapping[str, float]) -> None:
    wrong = {key: cosine for key, cosine in cosines.items() if not cosine > ALIKE}
    if wrong:
        raise ValueError(
            f"The peers' vectors must have a cosine with ours above {ALIKE}, got {wrong}. Use images without EXIF "
            "rotation and transparency, which only our extraction and transformers respect."
        )


def _of_listing(loop: Loop) -> Callable[[Listing], np.ndarray]:
    return lambda listing: loop([item.path for item in listing.items if item.path is not None])


def _paired(name: str, ours: list[float], peer: list[float], goal: float, unit: str) -> Figure:
    pairs = list(zip(ours, peer, strict=True))
    return figure(name, pairs, [theirs / mine for mine, theirs in pairs], goal=goal, unit=unit)
