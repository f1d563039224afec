"""Weighted nearest neighbours: the training rows vote, the nearer the more."""

import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier, Remark
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import unit_rows


class Neighbours(Classifier):
    """Logits are the log of the share of votes that the k most similar training rows give to each class.

    A row at cosine s votes with exp(s / temperature). Wu et al., "Unsupervised feature learning via non-parametric
    instance discrimination", CVPR 2018, section 3.4; defaults as in Caron et al., "Emerging properties in
    self-supervised vision transformers", ICCV 2021. Shares are over the k rows that vote, so they sum to 1.
    """

    is_closed_form: ClassVar[bool] = True
    minimises_loss: ClassVar[bool] = False
    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "warn",
            lambda own: own.prior_exponent not in (0, 1),
            "the prior_exponent of knn and posthoc.adjustment both take the class prior off the votes: use one of the "
            "two",
            beside="posthoc.adjustment",
        ),
    )
    kind: Literal["knn"] = "knn"
    k: int = Field(default=20, ge=1, le=2000, title="kNN: neighbours k")
    """Number of nearest rows that vote; of equally similar ones those that come first in the table."""
    temperature: float = Field(default=0.07, gt=0, le=10, title="kNN: temperature of the votes")
    """Cosine difference at which a vote counts e times as much; joined columns count alike (see head.preprocess)."""
    prior_exponent: float = Field(default=0.0, ge=0, le=2, title="kNN: exponent of the prior correction")
    """Divide the votes of a class by its share of the training rows to this power; 1 removes the class prior."""

    @property
    def knows_prior(self) -> bool:
        """Whether prior_exponent leaves any of the prior in the votes."""
        return self.prior_exponent != 1

    def notes_for(self, rows: int) -> tuple[str, ...]:
        """Note that fewer rows vote than were asked for, where there are no more."""
        return () if self.k <= rows else (f"k={self.k} becomes {rows}, for there are no more training rows",)

    def fit(self, rows: Rows) -> "NeighbourLayer":
        """The layer that holds the rows at length 1. A row's weight multiplies its vote."""
        weight = rows.weight.double().to(rows.x.device)
        mass = weight.new_zeros(rows.classes).index_add(0, rows.labels, weight)
        # Relative to the largest class, so that rare classes do not overflow at a high exponent.
        vote = weight / (mass / mass.amax())[rows.labels] ** self.prior_exponent
        keys = unit_rows(rows.x.double()).float()
        return NeighbourLayer(keys, rows.labels, vote.float(), rows.classes, self.k, self.temperature)

    def carried(self, log_prior: Tensor) -> Tensor:
        """The prior in the logits: what prior_exponent leaves of the rows' own."""
        return ((1 - self.prior_exponent) * log_prior).log_softmax(0)

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "NeighbourLayer":
        """A layer for as many rows as shapes["keys"] has, whose numbers are still to be loaded."""
        count = shapes["keys"][0]
        labels = torch.zeros(count, dtype=torch.int64)
        return NeighbourLayer(torch.zeros(count, dim), labels, torch.ones(count), classes, self.k, self.temperature)


class NeighbourLayer(nn.Module):
    """Log shares of votes, with a millionth of them given to all classes alike, so that none is log 0.

    The search runs on the CPU, wherever the layer is.

    Shapes: h [N, H], keys [M, H] float32 of length 1, labels [M] int64, vote [M] -> [N, C] float32
    """

    keys: Tensor
    labels: Tensor
    vote: Tensor

    def __init__(self, keys: Tensor, labels: Tensor, vote: Tensor, classes: int, k: int, temperature: float) -> None:
        super().__init__()
        self.register_buffer("keys", keys)
        self.register_buffer("labels", labels)
        self.register_buffer("vote", vote)
        self.classes = classes
        self.k = k
        self.temperature = temperature
        self._index: Any = None
        self.register_load_state_dict_post_hook(_forget_the_index)  # type: ignore[no-untyped-call]

    def forward(self, h: Tensor) -> Tensor:
        """Logits [N, C] of h [N, H]."""
        similarity, place = self._nearest(unit_rows(h.detach().float()))
        nearness = ((similarity - similarity[:, :1]) / self.temperature).exp()
        votes = nearness.new_zeros(len(h), self.classes)
        votes = votes.scatter_add(1, self.labels[place], nearness * self.vote[place].float())
        share = votes / votes.sum(1, keepdim=True).clamp_min(1e-30)
        return ((1 - 1e-6) * share + 1e-6 / self.classes).log()

    def _nearest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines [N, k] of the k nearest keys to unit rows x, highest first, and their places [N, k]."""
        if self._index is None:
            self._index = _index_of(self.keys)
        similarity, place = self._index.search(np.ascontiguousarray(x.cpu().numpy()), min(self.k, len(self.keys)))
        return torch.from_numpy(similarity).to(x.device), torch.from_numpy(place).to(x.device)


def _index_of(keys: Tensor) -> Any:
    """An exact inner-product index of the keys [M, H]."""
    # Imported here: faiss brings its own OpenMP, which few heads need to load beside torch's.
    import faiss

    if sys.platform == "darwin":
        # Two OpenMP runtimes in one process crash there as soon as both use threads (faiss issue 2555).
        faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(keys.shape[1])
    index.add(np.ascontiguousarray(keys.float().cpu().numpy()))
    return index


def _forget_the_index(layer: NeighbourLayer, _: Any) -> None:
    """Let the next search see keys that were just loaded."""
    layer._index = None
