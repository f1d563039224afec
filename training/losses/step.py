"""Inputs and outputs of a loss part in one training step of one head."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from torch import Tensor

from frostbench.heads.head import Core
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.training.losses.class_statistics import ClassStatistics, of_present
from frostbench.training.losses.scores import Branch, PointLoss

Updates = dict[str, Tensor]
"""New values of a part's buffers, by buffer name."""
Logs = dict[str, Tensor]
"""Logged values of a step by name: a sum and a count [2]; the epoch's log is the total sum over the total count."""


@dataclass(frozen=True)
class StepContext:
    """Everything a part may read in a step of one head; C+ is the number of classes with training rows.

    Attributes:
        core: body and classifier.
        statistics: class statistics, with the head's own class weights at this point of training.
        progress: training progress from 0 to 1.
        labels: [N] class indices.
        label_index: [N] column of each row's label among the classes with training rows.
        index: [N] indices of the training rows.
        branches: labels of the rows after mixing, with their shares; a single branch if rows are not mixed.
        table: [N, D] preprocessed vectors before augmentation and mixing.
        x: returns the vectors [N, D] after augmentation and, if rows are mixed, after mixing.
        hidden: [N, H] classifier inputs after augmentation and mixing.
        unmixed: [N, H] classifier inputs before mixing; the same as hidden if nothing is mixed or no part needs them.
        logits: [N, C]; divided by the class temperatures once these are known.
        is_mixed: whether hidden and logits belong to mixed rows.
        affine: mean and scale [D] that map preprocessed vectors back to rescaled ones; None before they are measured.
        views: number of consecutive rows per image; 1 if rows are drawn one by one.
        drawn: return value of the part's `draw`.
    """

    core: Core
    statistics: ClassStatistics
    progress: float
    labels: Tensor
    label_index: Tensor
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
        """Map preprocessed vectors x [N, D] back to the cached vectors, which are rescaled but not standardised."""
        return x if self.affine is None else as_cached(x, self.affine)

    def with_draw(self, drawn: Any) -> "StepContext":
        """Return the context of the part whose `draw` returned these tensors."""
        return self if isinstance(drawn, tuple) and not drawn else replace(self, drawn=drawn)

    def unmixed_logits(self) -> Tensor:
        """Return the undivided logits [N, C] of rows before mixing, for parts that need unmixed rows."""
        logits: Tensor = self.core.classifier(self.unmixed) if self.is_mixed else self.logits
        return logits

    def class_weights(self) -> Tensor:
        """Return the classifier's weight rows [C+, H]; the first centre of classes with several."""
        weight = cast(Tensor, self.core.classifier.weight)
        rows = weight[:, 0] if isinstance(self.core.classifier, CosineLayer) else weight
        return rows if self.statistics.has_all else rows.index_select(0, self.statistics.present)


def as_cached(x: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
    """Map preprocessed vectors x [N, D] back to the rescaled cached vectors by mean and scale [D]."""
    mean, scale = affine
    return x * scale + mean


class Effect(NamedTuple):
    """The contribution of a method to a step.

    Attributes:
        per_sample: wraps the point loss of the step in another.
        term: computes a scalar that is added to the mean, with its coefficient applied.
        finish: computes the buffers after the step and the logged values, once the objective is known. Updates of
            `row_buffers` have one entry [N] for each row of the step.
    """

    per_sample: Callable[[PointLoss], PointLoss] | None = None
    term: Callable[[], Tensor] | None = None
    finish: Callable[[], tuple[Updates, Logs]] | None = None
