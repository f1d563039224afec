"""Supervised contrastive loss, a term over a whole batch."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from frostbench.heads.bodies.dense import linear_layer
from frostbench.heads.spec import SWEPT, Spec


class NoProjector(Spec):
    """Compare the classifier's input itself."""

    kind: Literal["none"] = "none"

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """The identity."""
        return nn.Identity()


class MlpProjector(Spec):
    """Compare a projection: Linear, GELU, Linear. It is trained with the head and thrown away."""

    kind: Literal["mlp"] = "mlp"
    hidden: int = Field(default=512, ge=1, le=16384)
    """Width of the projector's hidden layer."""
    width: int = Field(default=128, ge=1, le=16384)
    """Width of the projection that is compared."""

    def build(self, width: int, generator: torch.Generator) -> nn.Module:
        """The projector for vectors of that width, initialised from generator."""
        first = linear_layer(width, self.hidden, generator)
        return nn.Sequential(first, nn.GELU(), linear_layer(self.hidden, self.width, generator))


ProjectorSpec = Annotated[NoProjector | MlpProjector, Field(discriminator="kind")]


class SupCon(Spec):
    """Draw the classifier's inputs of one class together and those of different classes apart, within each batch.

    Khosla et al., "Supervised contrastive learning", NeurIPS 2020, eq. 2 (L_out). Rows that are alone of their class
    in a batch have no positive; they are compared with, but the mean is over the others.
    """

    kind: Literal["supcon"] = "supcon"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT)
    """Divides the cosine similarities: a lower one presses harder on the nearest rows."""
    projector: ProjectorSpec = NoProjector()
    """What is compared: the classifier's input (none), or a projection of it (mlp)."""

    class_weighted: bool = False
    """Whether rows count by the weight of their class, as they do in the point loss, or all alike."""

    def __call__(self, x: Tensor, labels: Tensor, class_weight: Tensor) -> Tensor:
        """The term, a scalar, for vectors x [N, P], labels [N] and the weight [C] of each class.

        It is 0 where no row has a positive.
        """
        each, has_positive = self.per_anchor(x, labels)
        share = has_positive.to(each.dtype)
        if self.class_weighted:
            share = share * class_weight.to(each.dtype)[labels]
        total = share.sum()
        return (share * each).sum() / torch.where(total > 0, total, 1)

    def per_anchor(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each row [N], 0 where it has no positive, and which rows have one [N] bool."""
        h = normalize(x, dim=1)
        itself = torch.eye(len(h), dtype=torch.bool, device=h.device)
        positive = (labels[:, None] == labels) & ~itself
        has_positive = positive.any(1)
        similarity = h @ h.T / self.temperature
        # A row without a positive is compared with itself too, for in a batch of one there is nothing else, and the
        # log of an empty sum has no gradient. Its loss is not used.
        everything = similarity.masked_fill(itself & has_positive[:, None], -torch.inf).logsumexp(1)
        mean_positive = (similarity * positive).sum(1) / positive.sum(1).clamp(min=1)
        return torch.where(has_positive, everything - mean_positive, 0), has_positive
