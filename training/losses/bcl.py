"""Balanced contrastive loss, a term over a whole batch."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from frostbench.heads.spec import SWEPT, Spec, Tier
from frostbench.training.losses.supcon import MlpProjector, ProjectorSpec


class Bcl(Spec):
    """Supervised contrast in which every class counts alike and has a prototype, made from the classifier's weights.

    Zhu et al., "Balanced contrastive learning for long-tailed visual recognition", CVPR 2022 (class averaging
    and class complement). The paper adds it to cross entropy with logit adjustment of tau 1 on a cosine classifier.
    Rows that are alone of their class in a batch have its prototype as positive.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["bcl"] = "bcl"
    weight: float = Field(default=0.0, ge=0, le=100, json_schema_extra=SWEPT)
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out and the paper has 0.35."""
    temperature: float = Field(default=0.1, ge=0.01, le=10, json_schema_extra=SWEPT)
    """Divides the cosine similarities: a lower one presses harder on the nearest rows."""
    projector: ProjectorSpec = MlpProjector()
    """What is compared: classifier inputs and weights themselves (none), or a projection of each (mlp)."""

    def __call__(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """The term, a scalar, for vectors x [N, P], labels [N] and one prototype [C, P] for each class."""
        return self.per_anchor(x, labels, prototypes).mean()

    def per_anchor(self, x: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
        """Loss of each row [N]."""
        anchors = normalize(x, dim=1)
        similarity = anchors @ torch.cat([anchors, normalize(prototypes, dim=1)]).T / self.temperature
        classes = torch.arange(len(prototypes), device=labels.device)
        owners = torch.cat([labels, classes])
        same = labels[:, None] == owners
        itself = torch.eye(len(labels), len(owners), dtype=torch.bool, device=labels.device)
        # Members of each column's class that an anchor is compared with, prototype included and itself not.
        sizes = (owners[:, None] == owners).sum(1) - same.long()
        everything = (similarity - sizes.to(x.dtype).log()).masked_fill(itself, -torch.inf).logsumexp(1)
        positive = same & ~itself
        return everything - (similarity * positive).sum(1) / positive.sum(1)
