"""Weighted nearest neighbours: training rows vote, nearer ones with more weight."""

import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from frostbench.heads.classifier import Remark
from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import unit_rows


class Neighbours(FittedClassifier):
    """Logits are the log shares of votes that the k most similar training rows give to each class.

    A row at cosine s votes with exp(s / temperature). Wu et al., "Unsupervised feature learning via non-parametric
    instance discrimination", CVPR 2018, section 3.4; defaults as in Caron et al., "Emerging properties in
    self-supervised vision transformers", ICCV 2021. Shares are over the k voting rows, so they sum to 1.
    """

    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "warn",
            lambda own: own.prior_exponent not in (0, 1),
            "the prior_exponent of knn and posthoc.adjustment both remove the class prior from the votes: use only one "
            "of them",
            beside="posthoc.adjustment",
        ),
    )
    kind: Literal["knn"] = "knn"
    k: int = Field(default=20, ge=1, le=2000, title="kNN: neighbours k")
    """Number of nearest rows that vote; ties go to the rows that come first in the table."""
    temperature: float = Field(default=0.07, gt=0, le=10, title="kNN: temperature of the votes")
    """Cosine difference that makes a vote count e times as much; joined columns count equally (see head.preprocess)."""
    prior_exponent: float = Field(default=0.0, ge=0, le=2, title="kNN: exponent of the prior correction")
    """Power of the class share by which votes are divided; 1 removes the class prior, 0 keeps it."""

    @property
    def knows_prior(self) -> bool:
        """Whether prior_exponent leaves part of the class prior in the votes."""
        return self.prior_exponent != 1

    def notes_for(self, rows: int) -> tuple[str, ...]:
        """Return a note if there are fewer training rows than k."""
        return () if self.k <= rows else (f"k={self.k} is reduced to {rows}, the number of training rows",)

    def fit(self, rows: Rows) -> "NeighbourLayer":
        """Return the layer with the rows at length 1; a row's weight multiplies its vote."""
        weight = rows.weight.double().to(rows.x.device)
        mass = weight.new_zeros(rows.classes).index_add(0, rows.labels, weight)
        # Relative to the largest class, so that rare classes do not overflow at a high exponent.
        vote = weight / (mass / mass.amax())[rows.labels] ** self.prior_exponent
        keys = unit_rows(rows.x.double()).float()
        return NeighbourLayer(keys, rows.labels, vote.float(), rows.classes, self.k, self.temperature)

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return the log class prior [C+] in the logits: what prior_exponent leaves of the rows' prior."""
        return ((1 - self.prior_exponent) * log_prior).log_softmax(0)

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "NeighbourLayer":
        """Return a layer to load numbers into, with as many rows as shapes["keys"] has."""
        count = shapes["keys"][0]
        labels = torch.zeros(count, dtype=torch.int64)
        return NeighbourLayer(torch.zeros(count, dim), labels, torch.ones(count), classes, self.k, self.temperature)


class NeighbourLayer(nn.Module):
    """Log shares of votes, of which a millionth is spread over all classes to avoid log 0.

    The search runs on the CPU, even if the layer is elsewhere.

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
        """Return the logits [N, C] of h [N, H]."""
        similarity, index = self._nearest(unit_rows(h.detach().float()))
        nearness = ((similarity - similarity[:, :1]) / self.temperature).exp()
        votes = nearness.new_zeros(len(h), self.classes)
        votes = votes.scatter_add(1, self.labels[index], nearness * self.vote[index].float())
        share = votes / votes.sum(1, keepdim=True).clamp_min(1e-30)
        return ((1 - 1e-6) * share + 1e-6 / self.classes).log()

    def _nearest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines [N, k] of the k nearest keys to unit rows x, highest first, and their indices [N, k]."""
        if self._index is None:
            self._index = _index_of(self.keys)
        similarity, index = self._index.search(np.ascontiguousarray(x.cpu().numpy()), min(self.k, len(self.keys)))
        return torch.from_numpy(similarity).to(x.device), torch.from_numpy(index).to(x.device)


def _index_of(keys: Tensor) -> Any:
    """Build an exact inner-product index of the keys [M, H]."""
    # Imported here: faiss loads an OpenMP of its own beside torch's, and few heads need it.
    import faiss

    if sys.platform == "darwin":
        # On macOS, two OpenMP runtimes in one process crash once both use threads (faiss issue 2555).
        faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(keys.shape[1])
    index.add(np.ascontiguousarray(keys.float().cpu().numpy()))
    return index


def _forget_the_index(layer: NeighbourLayer, _: Any) -> None:
    """Drop the index after new keys were loaded."""
    layer._index = None
