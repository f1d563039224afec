"""Pairs of training rows that one step mixes."""

from typing import NamedTuple

from torch import Tensor

from frostbench.training.losses.scores import Branch


class Mix(NamedTuple):
    """Partners and shares of the rows of one step.

    Attributes:
        partner: [N] int64 index of the row that each row is mixed with.
        share_x: [N] float64 share of the row itself in the mixed vector; its partner has the rest.
        share_y: [N] float64 share of the row's own label; its partner's label has the rest.
    """

    partner: Tensor
    share_x: Tensor
    share_y: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Mix vectors x [N, H]; a mixture of unit vectors is shorter than 1, so normalise after mixing."""
        share = self.share_x.to(x.dtype)[:, None]
        return share * x + (1 - share) * x[self.partner]

    def branches(self, labels: Tensor) -> tuple[Branch, Branch]:
        """Return the two hard labels of each row, from labels [N], with their shares."""
        return Branch(labels, self.share_y), Branch(labels[self.partner], 1 - self.share_y)
