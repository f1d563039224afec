"""Events that an extraction yields, and the interface that it needs of a backbone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.remarks import NOTHING, Remarks


class Embedder(Protocol):
    """Interface of a backbone for extraction, implemented by `frostbench.embedcache.backbones.Backbone`."""

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """Recipe of each column."""

    @property
    def dims(self) -> Mapping[str, int]:
        """Vector length of each column."""

    @property
    def tokens(self) -> Mapping[str, int]:
        """Number of tokens per image for each column of tokens; other columns are absent."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Library versions and device."""

    @property
    def batch(self) -> int:
        """Default batch size for its device."""

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        """Convert uint8 [H, W, 3] to uint8 [3, S, S]; called from many threads."""

    def embed(self, batch: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Embed uint8 [B, 3, S, S] to float32 [B, D] by column, or [B, T, D] for tokens."""


@dataclass(frozen=True)
class Started:
    """The cache was opened; if only a part is embedded, the counts are those of the part.

    Attributes:
        n_listed: number of items in the listing.
        n_done: number of items that are done already.
        n_shards: number of shards of the listing.
        warnings: warnings about the listing, a changed environment, and shards or images that are embedded again.
    """

    n_listed: int
    n_done: int
    n_shards: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class BatchDone:
    """A batch was embedded; `n_done` items of the listing are done so far, including quarantined ones."""

    n_done: int
    n_listed: int


@dataclass(frozen=True)
class ShardDone:
    """A shard was written.

    Attributes:
        shard: index of the shard.
        n_ok: number of embedded rows in it.
        n_bad: number of quarantined items in it.
        n_done: number of items that are done so far, as in BatchDone.
        seconds: time that the shard took.
        images_per_second: items worked on per second.
        remarks: remarks about the decoded images.
    """

    shard: int
    n_ok: int
    n_bad: int
    n_done: int
    seconds: float
    images_per_second: float
    remarks: Remarks = NOTHING


@dataclass(frozen=True)
class Stopped:
    """Extraction was stopped; finished shards are kept, and the same call resumes after them."""

    n_listed: int
    n_done: int


@dataclass(frozen=True)
class Finished:
    """The cache is complete; n_ok + n_bad == n_listed.

    Attributes:
        n_listed: number of items in the listing.
        n_ok: number of rows in the cache.
        n_bad: number of quarantined items.
        seconds: duration of this run.
        images_per_second: items worked on per second, or 0 if there was no work.
        n_worked: number of items that this run worked on.
        remarks: remarks about these images.
    """

    n_listed: int
    n_ok: int
    n_bad: int
    seconds: float
    images_per_second: float
    n_worked: int
    remarks: Remarks = NOTHING


@dataclass(frozen=True)
class PartFinished:
    """All shards of a part are on disk; Finished follows if those of all other parts are too.

    Attributes:
        part: the part, as `I/N`.
        n_listed: number of items in its shards, including quarantined ones.
        n_shards_left: number of shards of other parts that are not on disk.
        seconds: duration of this run.
        n_worked: number of items that this run worked on.
        remarks: remarks about these images.
    """

    part: str
    n_listed: int
    n_shards_left: int
    seconds: float
    n_worked: int
    remarks: Remarks = NOTHING


Event = Started | BatchDone | ShardDone | Stopped | PartFinished | Finished
