"""The Hessian approximation of L-BFGS: an initial one from the softmax, and the history of steps.

All tensors have a leading dimension of heads [K'] and are float32, since they only affect the search direction.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

MEMORY = 10
"""Number of pairs in the history."""


@dataclass(frozen=True)
class Pair:
    """A step s [K', C, P], the change y of the gradient, and 1 / s.y [K'], or 0 for a skipped pair."""

    s: Tensor
    y: Tensor
    rho: Tensor

    def keep(self, mask: Tensor) -> "Pair":
        """Return the pair for the heads in mask [K']."""
        return Pair(self.s[mask], self.y[mask], self.rho[mask])


Pairs = tuple[Pair, ...]
"""A history, oldest pair first."""


@dataclass(frozen=True)
class Curvature:
    """A float32 Hessian that is `diagonal` [K', C, P] after classes are rotated by `vectors` [K', C, C]."""

    vectors: Tensor
    diagonal: Tensor

    def solve(self, x: Tensor) -> Tensor:
        """Multiply x [K', C, P] by the inverse."""
        return self.vectors @ ((self.vectors.transpose(1, 2) @ x) / self.diagonal)

    def keep(self, mask: Tensor) -> "Curvature":
        """Return the curvature for the heads in mask [K']."""
        return Curvature(self.vectors[mask], self.diagonal[mask])


def curvature_of(logits: Tensor, gradient: Tensor, spread: Tensor, penalty: Tensor) -> Curvature:
    """Approximate the softmax loss's Hessian at logits [K', N, C], as if class covariances were equal in all rows.

    It is then M kron diag(spread) + diag(penalty), where M is the mean of diag(p) - p p^T over the rows; the
    eigenvectors of M make it diagonal: Martens and Grosse, "Optimizing neural networks with Kronecker-factored
    approximate curvature", ICML 2015, for one layer. Adding a constant to all classes is a direction of eigenvalue 0,
    so only the penalty [K', 1, P] acts on it, unless the sum of the gradient [K', C, P] over classes shows that the
    loss depends on it.
    """
    size = gradient.abs().amax(2)
    # A class that the loss ignores has no gradient; it stays unchanged and out of the softmax.
    unseen = size <= 1e-9 * size.amax(1, keepdim=True)
    p = logits.masked_fill(unseen.unsqueeze(1), -torch.inf).softmax(-1).float()
    mean = torch.diag_embed(p.mean(1)) - p.transpose(1, 2) @ p / p.shape[1]
    level = mean.diagonal(dim1=1, dim2=2).mean(1)
    seen = gradient.sum(1).abs().amax(1) > 0.01 * size.amax(1)
    mean = mean + (level * seen / p.shape[2])[:, None, None]
    values, vectors = torch.linalg.eigh(mean.double())
    diagonal = values.clamp_min(1e-7).unsqueeze(2) * spread + penalty
    return Curvature(vectors.float(), diagonal.clamp_min(1e-12).float())


def remember(pairs: Pairs, step: Tensor, change: Tensor, failed: Tensor) -> Pairs:
    """Append a pair to the history, and drop the oldest if there are more than `MEMORY`.

    A pair whose s.y is not clearly positive is skipped; a head whose line search failed restarts with an empty history.
    """
    s, y = step.float(), change.float()
    product = (s * y).sum((1, 2))
    usable = product > 1e-10 * s.norm(dim=(1, 2)) * y.norm(dim=(1, 2))
    longer = (*pairs, Pair(s, y, torch.where(usable, 1 / product, 0)))[-MEMORY:]
    if bool(failed.any()):
        return tuple(replace(pair, rho=torch.where(failed, 0, pair.rho)) for pair in longer)
    return longer


def times_inverse_hessian(gradient: Tensor, pairs: Pairs, curvature: Curvature) -> Tensor:
    """Return the inverse Hessian times the gradient, [K', C, P] float32, by Liu and Nocedal's two-loop recursion."""
    q = gradient.float()
    amounts = []
    for pair in reversed(pairs):
        amounts.append((pair.rho * (pair.s * q).sum((1, 2)))[:, None, None])
        q = q - amounts[-1] * pair.y
    q = curvature.solve(q)
    if pairs:
        last = pairs[-1]
        scale = 1 / (last.rho * (last.y * curvature.solve(last.y)).sum((1, 2)))
        q = q * torch.where(last.rho > 0, scale, 1)[:, None, None]
    for pair, amount in zip(pairs, reversed(amounts), strict=True):
        q = q + (amount - (pair.rho * (pair.y * q).sum((1, 2)))[:, None, None]) * pair.s
    return q
