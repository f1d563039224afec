"""Linear discriminant analysis with a shrunk covariance."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.bodies.dense import Dense
from frostbench.heads.classifier import Remark
from frostbench.heads.closed_form.eigen import Eigenbasis, eigenbasis
from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.closed_form.solved import solved_layer
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import class_means


class Lda(FittedClassifier):
    """Logits of Gaussian classes with a shared covariance: x L m_c - m_c L m_c / 2, optionally plus the log prior.

    L is the inverse of (1 - a) S + a v I, where S is the weighted within-class covariance. All vectors are relative to
    the mean of the rows, which shifts the logits of all classes equally. With target=identity and a fixed a of 1e-4 it
    is the classifier of Hayes and Kanan, "Lifelong machine learning with deep streaming linear
    discriminant analysis", CVPR workshops 2020.
    """

    remarks: ClassVar[tuple[Remark, ...]] = (
        Remark(
            "no effect",
            lambda own: own.shrinkage != "fixed" and (own.alpha, own.target) != (Lda().alpha, Lda().target),
            "the estimators oas and ledoit_wolf choose alpha and shrink to the mean variance, so alpha and target have "
            "no effect: leave them out, or set the classifier's shrinkage=fixed",
        ),
    )
    kind: Literal["lda"] = "lda"
    shrinkage: Literal["oas", "ledoit_wolf", "fixed"] = Field(default="oas", title="LDA: shrinkage rule")
    """How α is chosen: by an estimator that minimises the expected error (oas, ledoit_wolf), or as given (fixed)."""
    alpha: float = Field(default=0.1, ge=0, le=1, title="LDA: shrinkage α")
    """Share α of the target in the covariance; used only with shrinkage=fixed."""
    target: Literal["mean_variance", "identity"] = Field(default="mean_variance", title="LDA: shrinkage target")
    """Target of the shrinkage: the mean within-class variance, or variance 1 on rescaled vectors (see head.preprocess).

    The estimators always shrink to the mean variance.
    """
    prior: Literal["uniform", "train"] = Field(default="uniform", title="LDA: class prior")
    """Class prior in the logits: uniform, or each class's share of the training rows."""

    @property
    def knows_prior(self) -> bool:
        """Whether the logits hold the prior of the training rows."""
        return self.prior == "train"

    def fit(self, rows: Rows) -> Dense:
        """Return the layer fitted to the rows; a class without rows is placed at the mean of all rows."""
        x, weight = rows.x.double(), rows.weight.to(rows.x.device, torch.float64)
        center = weight @ x / weight.sum()
        means, mass = class_means(x - center, rows.labels, weight, rows.classes)
        residual = x - center - means[rows.labels]
        basis = eigenbasis(residual, weight)
        pulled = self._times_inverse(basis, residual, weight, means)
        bias = -(pulled * means).sum(1) / 2
        if self.prior == "train":
            bias = bias + torch.where(mass > 0, mass / mass.sum(), 1).log()
        return solved_layer(pulled, bias - pulled @ center)

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return the log class prior [C+] in the logits: that of the rows, or uniform."""
        return log_prior if self.prior == "train" else torch.full_like(log_prior, 1 / len(log_prior)).log()

    def _times_inverse(self, basis: Eigenbasis, residual: Tensor, weight: Tensor, means: Tensor) -> Tensor:
        """Return means [C, D] times L; directions without variance, even after shrinkage, are ignored.

        If the rows do not vary within any class, there is no covariance and distances are Euclidean.
        """
        variance = basis.values.sum() / len(basis.mean)
        if not variance > 0:
            return means
        alpha = self._alpha(basis, residual, weight)
        floor = alpha * (variance if self.shrinkage != "fixed" or self.target == "mean_variance" else 1.0)
        inverse, outside = _pseudo_inverse((1 - alpha) * basis.values + floor), _pseudo_inverse(floor)
        turned = means @ basis.vectors
        # With fewer rows than features, vectors span a subspace; outside it the covariance is the floor alone.
        return (turned * (inverse - outside)) @ basis.vectors.T + outside * means

    def _alpha(self, basis: Eigenbasis, residual: Tensor, weight: Tensor) -> Tensor:
        if self.shrinkage == "fixed":
            return weight.new_tensor(self.alpha)
        share = weight / weight.sum()
        return (oas if self.shrinkage == "oas" else ledoit_wolf)(basis.values, residual, share)


def oas(values: Tensor, residual: Tensor, share: Tensor) -> Tensor:
    """Return the shrinkage α by Chen, Wiesel, Eldar and Hero, IEEE Trans. Signal Processing 2010, eq. 23.

    "Shrinkage algorithms for MMSE covariance estimation", without the terms of order 1 / D, as in scikit-learn.
    values [r] are the covariance's eigenvalues, residual [N, D] the rows, share [N] their weights with sum 1;
    unequal weights count as fewer rows, 1 / sum(share^2).
    """
    dim, rows = residual.shape[1], 1 / share.square().sum()
    mean, square = values.sum() / dim, values.square().sum() / dim**2
    distance = (rows + 1) * (square - mean.square() / dim)
    return torch.where(distance > 0, (square + mean.square()) / distance, 1).clamp_max(1)


def ledoit_wolf(values: Tensor, residual: Tensor, share: Tensor) -> Tensor:
    """Return the shrinkage α by Ledoit and Wolf, J. Multivariate Analysis 2004, lemmas 3.2 to 3.5.

    "A well-conditioned estimator for large-dimensional covariance matrices". Arguments as in `oas`.
    """
    dim = residual.shape[1]
    square = values.square().sum()
    distance = square - values.sum().square() / dim
    noise = (share.square() * residual.square().sum(1).square()).sum() - share.square().sum() * square
    return torch.where(distance > 0, noise / distance, 1).clamp(0, 1)


def _pseudo_inverse(values: Tensor) -> Tensor:
    """Return 1 / values, or 0 where a value is only rounding error."""
    return torch.where(values > 1e-12 * values.max().clamp_min(1e-300), 1 / values, 0)
