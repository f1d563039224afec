"""The rows of one shard while they are computed: good ones side by side, the others in the quarantine."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from frostbench.embedcache.backbones.backbone import NotFiniteError
from frostbench.embedcache.extraction.backbone_group import BackboneGroup
from frostbench.embedcache.extraction.forward_pool import ForwardPool
from frostbench.embedcache.extraction.pipeline import Decoded, Failed, Outcome
from frostbench.embedcache.items import escape_name
from frostbench.embedcache.remarks import Remarks
from frostbench.embedcache.storage.store import write_shard

LARGEST = 65504.0
"""The largest finite float16."""


class ShardRows:
    """The rows of one shard; an id, its digest and its vectors are appended together."""

    def __init__(self, backbone: BackboneGroup) -> None:
        self._backbone = backbone
        self.ids: list[str] = []
        self._digests: list[bytes] = []
        self._vectors: dict[str, list[np.ndarray]] = {name: [] for name in backbone.recipes}
        self.bad: list[dict[str, str | None]] = []
        self.remarks = Remarks()

    def embed(self, outcomes: Iterator[Outcome], batch: int, lanes: ForwardPool) -> Iterator[int]:
        """Embed in batches of good images, and say after each how many items of the shard are behind it.

        Raises:
            ValueError: no image of a batch has a vector that float16 can hold.
        """
        for good, vectors, failed in lanes.map(partial(embed_storable, self._backbone), self._batches(outcomes, batch)):
            for name, value in vectors.items():
                self._vectors[name].append(value)
            self.ids += [one.item.id for one in good]
            self._digests += [one.sha256 for one in good]
            self.bad += [_quarantined(one) for one in failed]
            yield len(self.ids) + len(self.bad)

    def _batches(self, outcomes: Iterator[Outcome], batch: int) -> Iterator[list[Decoded]]:
        """Good images by so many; the others are put into the quarantine."""
        waiting: list[Decoded] = []
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                self.bad.append(_quarantined(outcome))
                continue
            self.remarks += outcome.remarks
            waiting.append(outcome)
            if len(waiting) == batch:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def write(self, cache_dir: Path, i: int) -> None:
        """Write the shard; its quarantine is in the order of the ids, as the listing is."""
        recipes, dims, tokens = self._backbone.recipes, self._backbone.dims, self._backbone.tokens
        vectors = {}
        for name, parts in self._vectors.items():
            shape = (0, tokens[name], dims[name]) if name in tokens else (0, dims[name])
            vectors[name] = np.concatenate([np.empty(shape, np.float16), *parts])
        bad = sorted(self.bad, key=lambda row: row["id"] or "")
        write_shard(cache_dir, i, self.ids, self._digests, vectors, bad, recipes, dims, tokens)


def embed_storable(
    backbone: BackboneGroup, batch: Sequence[Decoded]
) -> tuple[list[Decoded], dict[str, np.ndarray], list[Failed]]:
    """The images whose vectors float16 can hold, those vectors [n, …] by column, and the other images.

    Raises:
        ValueError: of several images none is left, so the weights or the number type are wrong, not the images.
    """
    left, failed = list(batch), list[Failed]()
    while left:
        vectors, reasons = _vectors_or_reasons(backbone, left)
        failed += [Failed(left[row].item, reason, left[row].sha256) for row, reason in sorted(reasons.items())]
        good = [row for row in range(len(left)) if row not in reasons]
        left = [left[row] for row in good]
        if not left and len(batch) > 1:
            raise ValueError(
                f"vectors must be finite and at most {LARGEST:.0f} to be stored as float16, however: none of the "
                f"{len(batch)} images of a batch is so. The first: {failed[0].item.id!r}: {failed[0].reason}. Check "
                "that the weights belong to the model, and choose autocast float32 or another pooling."
            )
        if vectors:
            return left, {name: value[good].astype(np.float16) for name, value in vectors.items()}, failed
    return [], {}, failed


def _vectors_or_reasons(
    backbone: BackboneGroup, batch: Sequence[Decoded]
) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Vectors by column, and by row the reason why one cannot be stored; no vectors where the backbone refused."""
    try:
        embedded = backbone.embed([one.image for one in batch])
    except NotFiniteError as error:
        if not error.rows:
            raise
        return {}, dict.fromkeys(error.rows, "the backbone gives NaN or infinity for it")
    vectors = {name: value.cpu().numpy() for name, value in embedded.items()}
    return vectors, _too_large(vectors)


def _too_large(vectors: Mapping[str, np.ndarray]) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for name, value in vectors.items():
        largest = np.abs(value).max(axis=tuple(range(1, value.ndim)))
        # Not `largest > LARGEST`, which NaN would pass.
        for row in np.flatnonzero(~(largest <= LARGEST)).tolist():
            told = f"column {name!r} of its vector reaches {largest[row]:.0f}, but float16 ends at {LARGEST:.0f}"
            reasons.setdefault(row, told)
    return reasons


def _quarantined(failed: Failed) -> dict[str, str | None]:
    path = escape_name(os.fspath(failed.item.path or ""))
    digest = failed.sha256.hex() if failed.sha256 is not None else None
    return {"id": failed.item.id, "path": path, "reason": failed.reason, "sha256": digest}
