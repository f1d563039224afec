"""What a step of an objective is given beside its rows: random numbers, numbers of a head's own, and its moment."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from frostbench.heads.bodies.body import Dropped
from frostbench.training.augment.features import AugmentDraw
from frostbench.training.augment.frofa import FrofaDraw, Ranges
from frostbench.training.augment.mix import Mix
from frostbench.training.losses.scores import Branch


class Draws(NamedTuple):
    """The random numbers of one step; what a stage does not use is empty."""

    frofa: FrofaDraw | tuple[()]
    augment: AugmentDraw | tuple[()]
    mix: Mix | tuple[()]
    dropped: Dropped
    of_parts: Mapping[str, Any]


class PerHead(NamedTuple):
    """What a head has for itself in a stack, beside its parameters.

    Attributes:
        numbers: swept numbers by dotted path, 0-d; empty where the specs' own hold.
        weight: [C+] class weights.
        log_prior: [C+] log of the prior that the loss sees.
    """

    numbers: Mapping[str, Tensor]
    weight: Tensor
    log_prior: Tensor


class Cached(NamedTuple):
    """How preprocessed vectors were cached, in units: as x * scale + mean, within ranges over the training rows."""

    mean: Tensor
    scale: Tensor
    ranges: Ranges


class PerStep(NamedTuple):
    """What the heads of a stack share in one step.

    Attributes:
        layer: blocks before a mixing.
        progress: from 0 to 1.
        partners: [B] classes that share the labels of the step's rows; None where no label is shared.
        shares: [B] of each label that is the row's own; None likewise.
    """

    layer: int
    progress: float
    partners: Tensor | None = None
    shares: Tensor | None = None

    def branches(self, labels: Tensor) -> tuple[Branch, ...]:
        """The labels [B] of rows that are not mixed in the step, with their shares: two where views share them."""
        if self.partners is None or self.shares is None:
            return (Branch(labels, torch.ones_like(labels)),)
        return Branch(labels, self.shares), Branch(self.partners, 1 - self.shares)
