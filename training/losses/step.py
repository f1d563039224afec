"""What a part of a loss reads in a step of one head, and what it does there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.training.losses.class_statistics import ClassStatistics, of_present
from frostbench.training.losses.scores import Branch, PointLoss

Updates = dict[str, Tensor]
"""Buffers of a part with their values after a step."""
Logs = dict[str, Tensor]
"""What a part logs of a step: a sum and the count [2] that it is divided by at the end of the epoch."""


@dataclass(frozen=True)
class StepContext:
    """What a part may read in a step of one head; C+ counts the classes with training rows.

    Attributes:
        core: body and classifier.
        statistics: statistics of the classes, with the head's own weights at this point of training.
        progress: of training, from 0 to 1.
        labels: [N] classes.
        own: [N] their places among the classes with rows.
        index: [N] numbers of the training rows.
        branches: labels of the rows as they were mixed, with their shares; one where none were.
        table: [N, D] preprocessed vectors, neither augmented nor mixed.
        x: gives the vectors [N, D] as the step sees them, augmented and, where rows are mixed, mixed.
        hidden: [N, H] classifier inputs as the step sees them.
        unmixed: [N, H] classifier inputs of rows before mixing; as hidden where nothing is mixed or no part needs them.
        logits: [N, C], divided by class temperatures once these are known.
        is_mixed: whether hidden and logits are of mixed rows.
        affine: mean and scale [D] of preprocessed vectors in units; None before they were measured.
        views: rows of each image, one after another; 1 where rows are drawn one by one.
        drawn: what the part's `draw` gave.
    """

    core: Core
    statistics: ClassStatistics
    progress: float
    labels: Tensor
    own: Tensor
    index: Tensor
    branches: tuple[Branch, ...]
    table: Tensor
    x: Callable[[], Tensor]
    hidden: Tensor
    unmixed: Tensor
    logits: Tensor
    is_mixed: bool = False
    affine: tuple[Tensor, Tensor] | None = None
    views: int = 1
    drawn: Any = ()

    def present_logits(self) -> Tensor:
        """Return the logits [N, C+] of the classes with training rows."""
        return of_present(self.logits, self.statistics)

    def cached(self, x: Tensor) -> Tensor:
        """Return vectors [N, D] as they were cached, divided by their units but not standardised."""
        return x if self.affine is None else as_cached(x, self.affine)

    def with_draw(self, drawn: Any) -> "StepContext":
        """Return the context of a part that drew these tensors."""
        return self if isinstance(drawn, tuple) and not drawn else replace(self, drawn=drawn)

    def unmixed_logits(self) -> Tensor:
        """Return the logits [N, C] of rows before mixing, not divided; for parts that need unmixed rows."""
        found: Tensor = self.core.classifier(self.unmixed) if self.is_mixed else self.logits
        return found

    def class_weights(self) -> Tensor:
        """Return the classifier's rows [C+, H], of several centres the first."""
        weight = cast(Tensor, self.core.classifier.weight)
        every = weight[:, 0] if isinstance(self.core.classifier, CosineLayer) else weight
        return every if self.statistics.has_all else every.index_select(0, self.statistics.present)


def as_cached(x: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
    """Return preprocessed vectors [N, D] as they were cached, in units, by mean and scale [D]."""
    mean, scale = affine
    return x * scale + mean


class Effect(NamedTuple):
    """What a method does in a step.

    Attributes:
        per_sample: makes the point loss of the step from another.
        term: computes a scalar that is added to the mean, coefficient applied.
        finish: computes, once the objective is known, the buffers after the step and what is logged. Those of
            `row_buffers` have an entry [N] for each row of the step.
    """

    per_sample: Callable[[PointLoss], PointLoss] | None = None
    term: Callable[[], Tensor] | None = None
    finish: Callable[[], tuple[Updates, Logs]] | None = None
