"""The Mahalanobis head: distances to class means under each class's own covariance."""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import class_means, unit_rows


class Mahalanobis(FittedClassifier):
    """Logits are minus the squared Mahalanobis distance to each class mean, under the class's shrunk correlation.

    FeCAM, Goswami et al., "Exploiting the heterogeneity of class distributions in exemplar-free continual learning",
    NeurIPS 2023. Its power transform of the features is omitted, because it needs non-negative features. A class with
    fewer than two different rows has no covariance of its own and gets the mean of all classes' covariances.
    """

    kind: Literal["mahalanobis"] = "mahalanobis"
    alpha1: float = Field(default=1.0, ge=1e-3, le=100, title="Mahalanobis: variance shrinkage α₁")
    """Shrinkage of the variances: α₁ times their mean is added to each."""
    alpha2: float = Field(default=0.0, ge=0, le=100, title="Mahalanobis: covariance shrinkage α₂")
    """Shrinkage of the covariances: α₂ times their mean is added to each; at most alpha1."""
    normalise: bool = Field(default=True, title="Mahalanobis: scale rows to unit length")
    """Whether the rows and the class means are scaled to length 1."""
    max_gigabytes: float = Field(default=2.0, gt=0, le=1000, title="Mahalanobis: memory limit (GB)")
    """Maximum size of all class matrices in 10^9 bytes; larger heads are rejected."""

    @model_validator(mode="after")
    def _variances_shrink_at_least_as_much(self) -> "Mahalanobis":
        if self.alpha2 > self.alpha1:
            raise ValueError(
                f"alpha2 must be at most alpha1, got alpha2={self.alpha2} and alpha1={self.alpha1}. Raise alpha1; "
                "otherwise a shrunk covariance may not be positive definite."
            )
        return self

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior: no, since a distance does not depend on the number of rows."""
        return False

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it: no, since each class is fitted independently."""
        return False

    def fit(self, rows: Rows) -> "MahalanobisLayer":
        """Return the layer with the means and whitening matrices of the classes.

        Raises:
            ValueError: the matrices would exceed max_gigabytes.
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

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> "MahalanobisLayer":
        """Return an uninitialised layer to load saved numbers into."""
        return MahalanobisLayer(torch.zeros(classes, dim), torch.zeros(classes, dim, dim), self.normalise)

    def check_memory(self, classes: int, dim: int) -> None:
        """Check that the matrices for these numbers do not exceed max_gigabytes; see `Classifier`."""
        needed = classes * dim**2 * 4 / 1e9
        if needed > self.max_gigabytes:
            raise ValueError(
                f"The matrices of this head may take at most {self.max_gigabytes:g} GB, but {classes} classes with "
                f"{dim} inputs need {needed:.1f} GB. Raise max_gigabytes, use a narrower body, or choose a head with "
                "one covariance for all classes."
            )

    def _whitener(self, covariance: Tensor) -> Tensor:
        """Return A [D, D] with AᵀA equal to the inverse of the shrunk correlation matrix of a covariance [D, D]."""
        correlation = shrunk_correlation(covariance, self.alpha1, self.alpha2)
        identity = torch.eye(len(correlation)).to(correlation)
        # With alpha1 = alpha2 the matrix can be singular; this much on its diagonal of ones keeps it invertible.
        root = torch.linalg.cholesky(correlation + 1e-9 * identity)
        whitener: Tensor = torch.linalg.solve_triangular(root, identity, upper=False)
        return whitener


def shrunk_correlation(covariance: Tensor, alpha1: float, alpha2: float) -> Tensor:
    """Return the correlations [D, D] of a covariance [D, D], with α1 V1 added on its diagonal and α2 V2 elsewhere.

    V1 is the mean of the diagonal, V2 the mean of the other entries. A covariance of zeros becomes the identity.

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
    """Negative squared length of the whitened difference from each class mean.

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
        """Return the logits [N, C] of h [N, H]."""
        x = h.to(self.means.dtype)
        x = unit_rows(x) if self.normalise else x
        # Class by class: all at once would take N times C times H numbers.
        pairs = zip(self.means, self.whiteners, strict=True)
        return torch.stack([-((x - mean) @ whitener.T).square().sum(1) for mean, whitener in pairs], 1)
