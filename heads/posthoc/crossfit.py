"""Cross-fitting what follows training: each row is judged by layers that were fitted without its fold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import NoCalibration, PosthocSpec

FOLDS = 5


@dataclass(frozen=True)
class CrossFitted:
    """What is said of rows.

    Attributes:
        logits: [N, C] before any calibration.
        log_p: [N, C] calibrated log-probabilities.
        predicted: [N] classes.
    """

    logits: Tensor
    log_p: Tensor
    predicted: Tensor


def cross_fitted(
    layers: Layers,
    logits: Tensor,
    labels: Tensor,
    folds: Tensor,
    prior: Tensor | None = None,
    also: Calibration | None = None,
) -> CrossFitted:
    """CrossFitted for rows by layers fitted to those of the other folds.

    A fold whose others have no row of a trained class gets no calibration and no tuned decision.

    Args:
        layers: what is fitted.
        logits: [N, C] adjusted, -inf for classes that a row cannot have.
        labels: [N].
        folds: [N] number of each row's fold.
        prior: class prior [C] that rows are weighted to stand for.
        also: further rows that all layers are fitted to, and that are not judged.

    Raises:
        ValueError: a wanted recall or precision cannot be reached without a fold.
    """
    return crossed(layers, lambda _: logits, labels, folds, prior, also)


def crossed(
    layers: Layers,
    without: Callable[[int], Tensor],
    labels: Tensor,
    folds: Tensor,
    prior: Tensor | None = None,
    also: Calibration | None = None,
) -> CrossFitted:
    """As `cross_fitted`, where the adjustment of the logits is a choice that each fold has no part in.

    Args:
        layers: what is fitted.
        without: gives the logits [N, C] of all rows as the rows without a fold would have them adjusted.
        labels: [N].
        folds: [N] number of each row's fold.
        prior: class prior [C] that rows are weighted to stand for.
        also: further rows that all layers are fitted to, and that are not judged.

    Raises:
        ValueError: a wanted recall or precision cannot be reached without a fold.
    """
    parts, places = [], []
    for fold in sorted(set(folds.tolist())):
        held, logits = folds == fold, without(fold)
        others = Calibration(logits[~held], labels[~held])
        rows = others if also is None else concatenated((others, also))
        own = _fitted_without(layers, rows.known(), prior, fold)
        log_p = own.log_probabilities(logits[held])
        parts.append((logits[held], log_p, own.decide(log_p)))
        places.append(held.nonzero().squeeze(1))
    order = torch.cat(places).argsort()
    return CrossFitted(*(torch.cat(each)[order] for each in zip(*parts, strict=True)))


def concatenated(rows: Sequence[Calibration]) -> Calibration:
    """The rows of several as one."""
    return Calibration(torch.cat([each.logits for each in rows]), torch.cat([each.labels for each in rows]))


def _fitted_without(layers: Layers, rows: Calibration, prior: Tensor | None, fold: int) -> Layers:
    if not layers.spec.reads_rows:
        return layers
    if len(rows.labels) == 0:
        return Layers.of(PosthocSpec(calibration=NoCalibration(), shift=layers.spec.shift), layers.class_names)
    try:
        return layers.fitted_to(rows, prior)
    except ValueError as error:
        raise ValueError(f"without fold {fold + 1}, on which it is judged: {error}") from error


def folds_of(labels: Tensor, groups: Tensor | None) -> Tensor:
    """Folds [N], 5 or as many as there are groups, that keep groups whole and deal each class out in turn.

    >>> folds_of(torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([7, 7, 8, 9, 3, 4]))
    tensor([0, 0, 1, 2, 3, 4])

    Raises:
        ValueError: there are fewer than two groups.
    """
    own = torch.arange(len(labels)) if groups is None else torch.unique(groups, return_inverse=True)[1]
    first: dict[int, int] = {}
    for row, group in enumerate(own.tolist()):
        first.setdefault(group, row)
    count = min(FOLDS, len(first))
    if count < 2:
        raise ValueError(
            f"rows that fit and judge what follows training are parted by group, however: {len(first)} groups came. "
            "Give the split a calibrate share, and set posthoc.rows=calibrate."
        )
    order = sorted(first, key=lambda group: (int(labels[first[group]]), first[group]))
    fold = torch.zeros(len(first), dtype=torch.int64)
    fold[torch.tensor(order)] = torch.arange(len(order)) % count
    return fold[own]
