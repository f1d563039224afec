"""What an extraction tells while it runs, and what it needs of a backbone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.remarks import NOTHING, Remarks


class Embedder(Protocol):
    """One model as extraction sees it; `frostbench.embedcache.backbones.Backbone` is one."""

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """The recipe of each column."""

    @property
    def dims(self) -> Mapping[str, int]:
        """The vector length of each column."""

    @property
    def tokens(self) -> Mapping[str, int]:
        """How many tokens each image has in a column of tokens; other columns are absent."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Library versions and device."""

    @property
    def batch(self) -> int:
        """How many images at once suit its device."""

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        """uint8 [H, W, 3] to uint8 [3, S, S], called from many threads."""

    def embed(self, batch: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """uint8 [B, 3, S, S] to float32 [B, D] for each column, or [B, T, D] of tokens."""


@dataclass(frozen=True)
class Started:
    """The cache was opened. Where a part of it is embedded, items and shards are those of the part.

    Attributes:
        n_listed: items in the listing.
        n_done: those in shards that were finished before.
        n_shards: shards the listing is cut into.
        warnings: of the listing, a changed environment, and shards that are embedded anew; for a person.
    """

    n_listed: int
    n_done: int
    n_shards: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class BatchDone:
    """A batch was embedded; `n_done` items of the listing are behind it, including quarantined ones."""

    n_done: int
    n_listed: int


@dataclass(frozen=True)
class ShardDone:
    """A shard is on disk.

    Attributes:
        shard: its number.
        n_ok: rows that embedded.
        n_bad: rows in its quarantine.
        n_done: items of the listing that are in finished shards.
        seconds: since the shard before it.
        images_per_second: n_ok + n_bad over seconds.
        remarks: what should be told of the images that were decoded for it.
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
    """Extraction was stopped; finished shards are kept, and the same call resumes behind them."""

    n_listed: int
    n_done: int


@dataclass(frozen=True)
class Finished:
    """The cache is complete; n_ok + n_bad == n_listed.

    Attributes:
        n_listed: items in the listing.
        n_ok: rows in the cache.
        n_bad: items in its quarantine.
        seconds: that this run took.
        images_per_second: items that this run worked on, over seconds; 0 where there were none.
        n_worked: items that this run worked on; 0 where everything was done before.
        remarks: what should be told of these.
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
    """All shards of a part are on disk; Finished follows where those of the other parts are, too.

    Attributes:
        part: which part, as `I/N`.
        n_listed: items in its shards, including quarantined ones.
        n_shards_left: shards of other parts that are not on disk.
        seconds: that this run took.
        n_worked: items that this run worked on.
        remarks: what should be told of these.
    """

    part: str
    n_listed: int
    n_shards_left: int
    seconds: float
    n_worked: int
    remarks: Remarks = NOTHING


Event = Started | BatchDone | ShardDone | Stopped | PartFinished | Finished
