"""Consistency between views of one image, a term over a batch that holds images with all their views."""

import math
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT, Spec, Tier


class Consistency(Spec):
    """Draw the predictions for all views of an image to their mean: the Jensen-Shannon divergence between them.

    Hendrycks et al., "AugMix: a simple data processing method to improve robustness and uncertainty", ICLR 2020,
    section 3, which takes weight 12 for three views. There the loss beside it sees the plain image alone; here it sees
    every view.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["consistency"] = "consistency"
    weight: float = Field(default=0.0, ge=0, le=1000, json_schema_extra=SWEPT)
    """Coefficient of the term beside the mean of the point loss; 0 leaves it out. Reads train.views=together."""

    def __call__(self, logits: Tensor, views: int) -> Tensor:
        """The term, a scalar from 0 to log V, for logits [N, C] of images with V views each, one image after another.

        >>> import torch
        >>> z = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()
        >>> round(Consistency()(z, 2).item(), 4), round(Consistency()(z, 1).item(), 4)
        (0.1017, 0.0)
        """
        log_p = logits.reshape(-1, views, logits.shape[-1]).log_softmax(-1)
        log_mean = log_p.logsumexp(1, keepdim=True) - math.log(views)
        divergence: Tensor = (log_p.exp() * (log_p - log_mean)).sum(-1).mean()
        return divergence
