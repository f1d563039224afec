"""The base class of classifiers fitted to rows in closed form."""

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from frostbench.heads.bodies.dense import zero_layer
from frostbench.heads.classifier import Classifier


class FittedClassifier(Classifier):
    """A classifier that `fit` computes from the training rows and their weights, without a loss."""

    is_closed_form: ClassVar[bool] = True
    minimises_loss: ClassVar[bool] = False

    def carried(self, log_prior: Tensor) -> Tensor:
        """Return the log class prior [C+] in the logits: that of the rows, or uniform without `knows_prior`."""
        return log_prior if self.knows_prior else torch.full_like(log_prior, -math.log(len(log_prior)))

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> nn.Module:
        """Return a linear layer to load numbers into; kinds with another layer override this."""
        return zero_layer(dim, classes)
