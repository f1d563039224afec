"""Inputs of a training step besides its rows: random numbers, values per head and values per step."""

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
    """Random numbers of one step; those that a stage does not use are empty."""

    frofa: FrofaDraw | tuple[()]
    augment: AugmentDraw | tuple[()]
    mix: Mix | tuple[()]
    dropped: Dropped
    of_parts: Mapping[str, Any]


class PerHead(NamedTuple):
    """Values of one head in a stack, besides its parameters.

    Attributes:
        numbers: swept numbers by dotted path, 0-d; empty if the numbers of the specs apply.
        weight: weights [C+] of the classes with training rows.
        log_prior: log [C+] of the prior that the loss sees.
    """

    numbers: Mapping[str, Tensor]
    weight: Tensor
    log_prior: Tensor


class Cached(NamedTuple):
    """Map from preprocessed vectors back to rescaled cached ones, x * scale + mean, with the training rows' ranges."""

    mean: Tensor
    scale: Tensor
    ranges: Ranges


class PerStep(NamedTuple):
    """Values that the heads of a stack share in one step.

    Attributes:
        layer: number of the body's blocks before rows are mixed; 0 mixes the input.
        progress: progress of the stage, from 0 to 1.
        partners: second class [B] of each row's label, or None if no row has a mixed label.
        shares: share [B] of each row's own class in its label, or None if no row has a mixed label.
    """

    layer: int
    progress: float
    partners: Tensor | None = None
    shares: Tensor | None = None

    def branches(self, labels: Tensor) -> tuple[Branch, ...]:
        """Return the labels [B] of unmixed rows, with their shares; a second branch holds the partner classes."""
        if self.partners is None or self.shares is None:
            return (Branch(labels, torch.ones_like(labels)),)
        return Branch(labels, self.shares), Branch(self.partners, 1 - self.shares)
