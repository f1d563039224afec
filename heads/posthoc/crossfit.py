"""Cross-fitting of post-hoc layers: each row is evaluated by layers fitted without its fold."""

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
    """Cross-fitted predictions of rows.

    Attributes:
        logits: [N, C] before calibration.
        log_p: [N, C] calibrated log-probabilities.
        predicted: [N] predicted classes.
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
    """Predict rows with layers fitted to the other folds.

    A fold gets no calibration and no tuned decision if neither the other folds nor `also` have rows of trained classes.
    The logits [N, C] are adjusted, with -inf for impossible classes of a row; for the other arguments and errors see
    `crossed`.
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
    """Predict as `cross_fitted` does, with an adjustment of the logits that is also chosen without the fold.

    Args:
        layers: the layers to fit.
        without: maps a fold to the logits [N, C] of all rows, adjusted as chosen without that fold.
        labels: [N].
        folds: [N] fold of each row.
        prior: class prior [C] that rows are weighted to represent.
        also: further rows for every fit, which are not evaluated.

    Raises:
        ValueError: a required recall or precision cannot be reached without a fold.
    """
    parts, indices = [], []
    for fold in sorted(set(folds.tolist())):
        held, logits = folds == fold, without(fold)
        others = Calibration(logits[~held], labels[~held])
        rows = others if also is None else concatenated((others, also))
        fitted = _fitted_without(layers, rows.known(), prior, fold)
        log_p = fitted.log_probabilities(logits[held])
        parts.append((logits[held], log_p, fitted.decide(log_p)))
        indices.append(held.nonzero().squeeze(1))
    order = torch.cat(indices).argsort()
    return CrossFitted(*(torch.cat(part)[order] for part in zip(*parts, strict=True)))


def concatenated(rows: Sequence[Calibration]) -> Calibration:
    """Concatenate sets of rows."""
    return Calibration(torch.cat([part.logits for part in rows]), torch.cat([part.labels for part in rows]))


def _fitted_without(layers: Layers, rows: Calibration, prior: Tensor | None, fold: int) -> Layers:
    if not layers.spec.reads_rows:
        return layers
    if len(rows.labels) == 0:
        return Layers.of(PosthocSpec(calibration=NoCalibration(), shift=layers.spec.shift), layers.class_names)
    try:
        return layers.fitted_to(rows, prior)
    except ValueError as error:
        raise ValueError(f"Layers that predict fold {fold + 1} must be fitted without it, but: {error}") from error


def folds_of(labels: Tensor, groups: Tensor | None) -> Tensor:
    """Return folds [N], at most 5, that keep groups together and distribute each class evenly.

    >>> folds_of(torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([7, 7, 8, 9, 3, 4]))
    tensor([0, 0, 1, 2, 3, 4])

    Raises:
        ValueError: there are fewer than two groups.
    """
    group_of = torch.arange(len(labels)) if groups is None else torch.unique(groups, return_inverse=True)[1]
    first: dict[int, int] = {}
    for row, group in enumerate(group_of.tolist()):
        first.setdefault(group, row)
    count = min(FOLDS, len(first))
    if count < 2:
        raise ValueError(
            f"Cross-fitting of calibration and decisions needs at least 2 groups of rows, got {len(first)}. Give the "
            "split a calibrate share, and set posthoc.rows=calibrate."
        )
    order = sorted(first, key=lambda group: (int(labels[first[group]]), first[group]))
    fold = torch.zeros(len(first), dtype=torch.int64)
    fold[torch.tensor(order)] = torch.arange(len(order)) % count
    return fold[group_of]
