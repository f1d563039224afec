"""The eigendecomposition of the rows' covariance that ridge, LDA and logistic regression share."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Eigenbasis:
    """The weighted covariance of rows [N, D] as vectors diag(values) vectors^T, with r = min(N, D).

    Attributes:
        mean: [D] weighted mean of the rows.
        values: [r] eigenvalues, ascending and never below 0.
        vectors: [D, r] orthonormal columns that span all centred rows of weight above 0.
    """

    mean: Tensor
    values: Tensor
    vectors: Tensor

    def rotate(self, x: Tensor) -> Tensor:
        """Return the float64 coordinates [N, r] of x [N, D] after centring."""
        return (x.double() - self.mean) @ self.vectors


def eigenbasis(x: Tensor, weight: Tensor) -> Eigenbasis:
    """Compute the float64 eigenbasis of rows x [N, D] with weights [N] of any positive sum.

    With fewer rows than columns, the rows are first expressed in an orthonormal basis Q [D, N], x = R^T Q^T, and only
    the [N, N] matrix R R^T is decomposed. Q is orthonormal up to rounding however small an eigenvalue is, unlike
    X^T U / s from the Gram matrix's eigenvectors U and singular values s.
    """
    exact = x.double()
    share = weight.to(exact) / weight.to(exact).sum()
    mean = share @ exact
    centred = (exact - mean) * share.sqrt().unsqueeze(1)
    if len(x) >= x.shape[1]:
        values, vectors = torch.linalg.eigh(centred.T @ centred)
        return Eigenbasis(mean, values.clamp_min(0), vectors)
    q, r = torch.linalg.qr(centred.T)
    values, inner = torch.linalg.eigh(r @ r.T)
    return Eigenbasis(mean, values.clamp_min(0), q @ inner)
