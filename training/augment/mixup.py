"""Mixup of vectors and of hidden layers."""

from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec
from frostbench.training.losses.scores import Branch


class Mix(NamedTuple):
    """How the rows of one step are mixed.

    Attributes:
        partner: [N] int64 the row that each row is mixed with.
        share_x: [N] float64 share of the row itself in its vector; its partner has the rest.
        share_y: [N] float64 share of the row's own label; its partner's has the rest.
    """

    partner: Tensor
    share_x: Tensor
    share_y: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Mixed vectors [N, H] of x [N, H]; a mixture of unit vectors is shorter than 1, so normalise it after."""
        share = self.share_x.to(x.dtype)[:, None]
        return share * x + (1 - share) * x[self.partner]

    def branches(self, labels: Tensor) -> tuple[Branch, Branch]:
        """The two hard labels of each row, from labels [N], with their shares."""
        return Branch(labels, self.share_y), Branch(labels[self.partner], 1 - self.share_y)


class Mixup(Spec):
    """Train on mixtures of pairs of rows, whose two labels share the loss.

    Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018; with hidden layers, Verma et al., "Manifold
    mixup: better representations by interpolating hidden states", ICML 2019. The share is drawn for each row, the
    layer for each step. Pairs with rows of rare classes follow Ren et al., Entropy 26(10):839, 2024, who blend images.
    """

    kind: Literal["mixup"] = "mixup"
    alpha: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="Mixup α (Beta distribution)")
    """Both parameters of the Beta distribution of the share: 0 mixes nothing, 1 is uniform, small ones mix little."""
    where: Literal["input", "hidden"] = Field(default="input", title="Mixup: layer that is mixed")
    """Place of mixing: the vector, or a layer drawn in each step from the vector and the outputs of all blocks."""
    pairing: Literal["random", "head_tail"] = Field(default="random", title="Mixup: choice of partners")
    """Partners: a shuffle of the batch, or rows whose class is drawn in inverse proportion to its size (head_tail)."""
    label_rule: Literal["share", "remix"] = Field(default="share", title="Mixup: label rule")
    """Labels: shared as the vectors are, or given whole to a much rarer class that has most of the vector (remix)."""
    remix_kappa: float = Field(default=3.0, gt=1, le=1000, title="Remix: class-size ratio κ")
    """How many times larger one class must be than the other before remix gives the label away."""
    remix_tau: float = Field(default=0.5, ge=0, le=1, title="Remix: share threshold τ")
    """Remix gives the label to the rarer class where the larger one has less than this share of the vector."""

    def draw_layer(self, depth: int, generator: torch.Generator) -> int:
        """Blocks before the mixing, for a body of depth blocks: 0 mixes the input; nothing is drawn for no mixing."""
        if self.alpha == 0 or self.where == "input" or depth == 0:
            return 0
        return int(torch.randint(depth + 1, (), generator=generator, device=generator.device))

    def draw(self, labels: Tensor, counts: Tensor, generator: torch.Generator) -> Mix:
        """A mixing of rows with labels [N], indices of the classes with training counts [C]; alpha is above 0.

        All tensors lie on the generator's device.
        """
        if self.pairing == "head_tail":
            partner = _rare_partners(labels, counts, generator)
        else:
            partner = torch.randperm(len(labels), generator=generator, device=generator.device)
        share = self._shares(len(labels), generator)
        if self.label_rule == "share":
            return Mix(partner, share, share)
        ratio = counts[labels].double() / counts[labels[partner]].double()
        return Mix(partner, share, remix_share(share, ratio, self.remix_kappa, self.remix_tau))

    def _shares(self, rows: int, generator: torch.Generator) -> Tensor:
        """Shares [N] from the Beta distribution: the inverse of its distribution function at uniform numbers.

        torch draws no Beta variates from a generator.
        """
        from scipy.special import betaincinv

        uniform = torch.rand(rows, generator=generator, device=generator.device, dtype=torch.float64)
        share = torch.from_numpy(betaincinv(self.alpha, self.alpha, uniform.cpu().numpy()))
        return share.to(generator.device)


def remix_share(share: Tensor, ratio: Tensor, kappa: float, tau: float) -> Tensor:
    """Share [N] of a row's own label, from its share of the vector and the ratio of its class size to its partner's.

    Chou et al., "Remix: rebalanced mixup", ECCV Workshops 2020.

    >>> remix_share(torch.tensor([0.4, 0.6, 0.6]), torch.tensor([90.0, 90.0, 1 / 90]), 3, 0.5).tolist()
    [0.0, 0.6000000238418579, 1.0]
    """
    all_partners = (ratio >= kappa) & (share < tau)
    all_own = (ratio <= 1 / kappa) & (1 - share < tau)
    return torch.where(all_partners, 0.0, torch.where(all_own, 1.0, share))


def _rare_partners(labels: Tensor, counts: Tensor, generator: torch.Generator) -> Tensor:
    """A partner [N] for each row: a class of the batch in inverse proportion to its count [C], any row of it alike."""
    in_batch = torch.bincount(labels, minlength=len(counts))
    edges = (1 / (counts * in_batch)[labels].double()).cumsum(0)
    uniform = torch.rand(len(labels), generator=generator, device=generator.device, dtype=torch.float64)
    return torch.searchsorted(edges, uniform * edges[-1], right=True).clamp(max=len(labels) - 1)
