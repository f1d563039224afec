"""Mixup of vectors and of hidden layers."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import Spec
from training.losses.loss import Branch


@dataclass(frozen=True)
class Mix:
    """How the rows of one step are mixed.

    Attributes:
        partner: [N] int64 the row that each row is mixed with.
        share: [N] share of the row itself; its partner has the rest.
        layer: blocks of the body that come before the mixing; 0 mixes the input.
    """

    partner: Tensor
    share: Tensor
    layer: int

    def __call__(self, x: Tensor) -> Tensor:
        """Mixed vectors [N, H] of x [N, H]."""
        share = self.share.to(x.dtype)[:, None]
        return share * x + (1 - share) * x[self.partner]

    def branches(self, labels: Tensor) -> tuple[Branch, Branch]:
        """The two hard labels of each row, from labels [N], with their shares."""
        return Branch(labels, self.share), Branch(labels[self.partner], 1 - self.share)


class Mixup(Spec):
    """Train on mixtures of pairs of rows, whose two labels share the loss.

    Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018; with hidden layers, Verma et al., "Manifold
    mixup: better representations by interpolating hidden states", ICML 2019. The share is drawn for each row, the
    layer for each step.
    """

    kind: Literal["mixup"] = "mixup"
    alpha: float = Field(default=0.0, ge=0, le=10)
    """Both parameters of the Beta distribution of the share: 0 mixes nothing, 1 is uniform, small ones mix little."""
    where: Literal["input", "hidden"] = "input"
    """What is mixed: the vector, or a layer drawn anew in each step from the vector and the outputs of all blocks."""

    def draw(self, rows: int, depth: int, generator: torch.Generator) -> Mix:
        """A mixing of that many rows for a body of depth blocks."""
        device = generator.device
        layer = 0
        if self.where == "hidden" and depth > 0:
            layer = int(torch.randint(depth + 1, (), generator=generator, device=device))
        partner = torch.randperm(rows, generator=generator, device=device)
        from scipy.special import betaincinv

        # The inverse of the distribution function, for torch draws no Beta from a generator.
        uniform = torch.rand(rows, generator=generator, device=device, dtype=torch.float64)
        share = torch.from_numpy(betaincinv(self.alpha, self.alpha, uniform.cpu().numpy()))
        return Mix(partner, share.to(device), layer)
