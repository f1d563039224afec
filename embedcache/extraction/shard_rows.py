"""The rows of one shard while it is computed: embedded rows and quarantined items."""

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
"""Largest finite float16."""


class ShardRows:
    """Rows of one shard; an id, its digest and its vectors are appended together."""

    def __init__(self, backbone: BackboneGroup) -> None:
        self._backbone = backbone
        self.ids: list[str] = []
        self._digests: list[bytes] = []
        self._vectors: dict[str, list[np.ndarray]] = {name: [] for name in backbone.recipes}
        self.bad: list[dict[str, str | None]] = []
        self.remarks = Remarks()

    def embed(self, outcomes: Iterator[Outcome], batch: int, pool: ForwardPool) -> Iterator[int]:
        """Embed decoded images in batches, and yield after each how many items of the shard are done so far.

        Raises:
            ValueError: no image of a batch has a vector that fits into float16.
        """
        for good, vectors, failed in pool.map(partial(embed_storable, self._backbone), self._batches(outcomes, batch)):
            for name, value in vectors.items():
                self._vectors[name].append(value)
            self.ids += [decoded.item.id for decoded in good]
            self._digests += [decoded.sha256 for decoded in good]
            self.bad += map(_quarantined, failed)
            yield len(self.ids) + len(self.bad)

    def _batches(self, outcomes: Iterator[Outcome], batch: int) -> Iterator[list[Decoded]]:
        """Yield batches of decoded images, and quarantine the failures."""
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
        """Write the shard, with its quarantine sorted by id like the listing."""
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
    """Embed a batch, and return the storable images, their vectors [n, …] by column, and the failures.

    A vector is storable if it is finite in float16.

    Raises:
        ValueError: no image of several is storable, which points to wrong weights or a wrong number type.
    """
    left, failed = list(batch), list[Failed]()
    while left:
        vectors, reasons = _vectors_or_reasons(backbone, left)
        failed += [Failed(left[row].item, reason, left[row].sha256) for row, reason in sorted(reasons.items())]
        good = [row for row in range(len(left)) if row not in reasons]
        left = [left[row] for row in good]
        if not left and len(batch) > 1:
            is_exact = {recipe.autocast for recipe in backbone.recipes.values()} == {"float32"}
            choice = "another pooling" if is_exact else "autocast float32 or another pooling"
            raise ValueError(
                f"vectors must be finite and at most {LARGEST:.0f} to be stored as float16, but no image of a batch of "
                f"{len(batch)} has such a vector. The first is {failed[0].item.id!r}: {failed[0].reason}. Check that "
                f"the weights belong to the model, and choose {choice}."
            )
        if vectors:
            return left, {name: value[good].astype(np.float16) for name, value in vectors.items()}, failed
    return [], {}, failed


def _vectors_or_reasons(
    backbone: BackboneGroup, batch: Sequence[Decoded]
) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Return vectors by column and a reason for each unstorable row; no vectors if the backbone raised an error."""
    try:
        embedded = backbone.embed([decoded.image for decoded in batch])
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
        # Not `largest > LARGEST`, which is false for NaN.
        for row in np.flatnonzero(~(largest <= LARGEST)).tolist():
            reason = f"its vector in column {name!r} reaches {largest[row]:.0f}, but float16 ends at {LARGEST:.0f}"
            reasons.setdefault(row, reason)
    return reasons


def _quarantined(failed: Failed) -> dict[str, str | None]:
    path = escape_name(os.fspath(failed.item.path or ""))
    digest = failed.sha256.hex() if failed.sha256 is not None else None
    return {"id": failed.item.id, "path": path, "reason": failed.reason, "sha256": digest}
