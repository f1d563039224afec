"""The Mahalanobis head: the nearest class mean, measured by each class's own covariance."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from frostbench.heads.classifier import Classifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import class_means, unit_rows


class Mahalanobis(Classifier):
    """Logits are minus the squared Mahalanobis distance to each class mean, under the class's shrunk correlation.

    FeCAM, Goswami et al., "Exploiting the heterogeneity of class distributions in exemplar-free continual learning",
    NeurIPS 2023. Its power transform of the features is left out: it needs features that are not negative. A class
    of fewer than two rows has no covariance, and gets the mean one of all classes.
    """

    is_closed_form: ClassVar[bool] = True
    minimises_loss: ClassVar[bool] = False
    kind: Literal["mahalanobis"] = "mahalanobis"
    alpha1: float = Field(default=1.0, ge=1e-3, le=100, title="Mahalanobis: variance shrinkage α₁")
    """Shrinkage of the variances: this times their mean is added to each."""
    alpha2: float = Field(default=0.0, ge=0, le=100, title="Mahalanobis: covariance shrinkage α₂")
    """Shrinkage of the covariances: this times their mean is added to each; at most alpha1."""
    normalise: bool = Field(default=True, title="Mahalanobis: scale rows to unit length")
    """Scale the rows and the class means to length 1."""
    max_gigabytes: float = Field(default=2.0, gt=0, le=1000, title="Mahalanobis: memory limit (GB)")
    """Largest size in 10^9 bytes that the classes' matrices may take."""

    @model_validator(mode="after")
    def _variances_shrink_at_least_as_much(self) -> "Mahalanobis":
        if self.alpha2 > self.alpha1:
            raise ValueError(
                f"alpha2 must be at most alpha1, however: it is {self.alpha2} and alpha1 is {self.alpha1}. "
                "Raise alpha1; else a shrunk covariance may be none."
            )
        return self

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior: a distance does not know how many rows its class has."""
        return False

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it: each class is fitted by itself."""
        return False

    def fit(self, rows: Rows) -> "MahalanobisLayer":
        """The layer with the means and whitening matrices of the rows.

        Raises:
            ValueError: the matrices would be larger than max_gigabytes.
        """
        self.check_memory(rows.classes, rows.x.shape[1])
        x = rows.x.double()
        x = unit_rows(x) if self.normalise else x
        weight = rows.weight.to(x)
        means, mass = class_means(x, rows.labels, weight, rows.classes)
        away = (x - means[rows.labels]) * (weight / mass[rows.labels]).sqrt().unsqueeze(1)
        together = self._whitener(away.T @ away / (mass > 0).sum())
        whiteners = together.float().repeat(rows.classes, 1, 1)
        for label in torch.unique(rows.labels).tolist():
            own = away[rows.labels == label]
            if len(own) > 1 and own.any():
                whiteners[label] = self._whitener(own.T @ own).float()
        means = unit_rows(means) if self.normalise else means
        return MahalanobisLayer(means.float(), whiteners, self.normalise)

    def carried(self, log_prior: Tensor) -> Tensor:
        """The prior in the logits: uniform, since a distance does not know how many rows its class has."""
        return torch.full_like(log_prior, -math.log(len(log_prior)))

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "MahalanobisLayer":
        """A layer whose numbers are still to be loaded."""
        return MahalanobisLayer(torch.zeros(classes, dim), torch.zeros(classes, dim, dim), self.normalise)

    def check_memory(self, classes: int, dim: int) -> None:
        """Refuse rows of width dim of so many classes.

        Raises:
            ValueError: the matrices would be larger than max_gigabytes.
        """
        needed = classes * dim**2 * 4 / 1e9
        if needed > self.max_gigabytes:
            raise ValueError(
                f"the matrices of this head may take {self.max_gigabytes:g} GB, however: {classes} classes of width "
                f"{dim} need {needed:.1f} GB. Raise max_gigabytes, put a narrower body before the head, or take a "
                "head with one covariance for all classes."
            )

    def _whitener(self, covariance: Tensor) -> Tensor:
        """[D, D] A with AᵀA = the inverse of the shrunk correlation matrix of a covariance [D, D]."""
        correlation = shrunk_correlation(covariance, self.alpha1, self.alpha2)
        identity = torch.eye(len(correlation)).to(correlation)
        # With alpha1 = alpha2 the matrix can be singular; this much on its diagonal of ones keeps it invertible.
        root = torch.linalg.cholesky(correlation + 1e-9 * identity)
        whitener: Tensor = torch.linalg.solve_triangular(root, identity, upper=False)
        return whitener


def shrunk_correlation(covariance: Tensor, alpha1: float, alpha2: float) -> Tensor:
    """[D, D] correlations of a covariance [D, D] after α1 V1 is added to its diagonal and α2 V2 elsewhere.

    V1 is the mean of the diagonal, V2 that of the other entries. A covariance of zeros becomes the identity.

    >>> shrunk_correlation(torch.tensor([[0.04, 0.01], [0.01, 0.09]]), 1, 1)
    tensor([[1.0000, 0.1568],
            [0.1568, 1.0000]])
    """
    dim = len(covariance)
    identity = torch.eye(dim).to(covariance)
    diagonal = covariance.diagonal()
    others = (covariance.sum() - diagonal.sum()) / max(dim * (dim - 1), 1)
    shrunk = covariance + alpha1 * diagonal.mean() * identity + alpha2 * others * (1 - identity)
    deviation = shrunk.diagonal().sqrt()
    return shrunk / deviation.outer(deviation) if deviation.all() else identity


class MahalanobisLayer(nn.Module):
    """Minus the squared length of the whitened difference to each class mean.

    Shapes: h [N, H], means [C, H], whiteners [C, H, H] -> [N, C]
    """

    means: Tensor
    whiteners: Tensor

    def __init__(self, means: Tensor, whiteners: Tensor, normalise: bool) -> None:
        super().__init__()
        self.register_buffer("means", means)
        self.register_buffer("whiteners", whiteners)
        self.normalise = normalise

    def forward(self, h: Tensor) -> Tensor:
        """Logits [N, C] of h [N, H]."""
        x = h.to(self.means.dtype)
        x = unit_rows(x) if self.normalise else x
        # Class by class: all at once would need N times C times H numbers.
        pairs = zip(self.means, self.whiteners, strict=True)
        return torch.stack([-((x - mean) @ whitener.T).square().sum(1) for mean, whitener in pairs], 1)
