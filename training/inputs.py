"""What a step of an objective is given beside its rows: random numbers, numbers of a head's own, and its moment."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from heads.body import Dropped
from training.augment import AugmentDraw
from training.frofa import FrofaDraw, Ranges
from training.mixup import Mix


class Draws(NamedTuple):
    """The random numbers of one step; what a stage does not use is empty."""

    frofa: FrofaDraw | tuple[()]
    augment: AugmentDraw | tuple[()]
    mix: Mix | tuple[()]
    dropped: Dropped
    signs: Tensor | tuple[()] = ()


class Own(NamedTuple):
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
    """How preprocessed vectors were cached: these are x * scale + mean, within ranges over the training rows."""

    mean: Tensor
    scale: Tensor
    ranges: Ranges


class Moment(NamedTuple):
    """What the heads of a stack share in one step: blocks before a mixing, and the progress from 0 to 1."""

    layer: int
    progress: float
