"""Cross-validates runs on the training rows of a split: all on the same rows and folds, without any other row."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.runs.evaluate import part_of
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.folds import cut, make_folds
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.crossval.crossval import (
    CrossValidated,
    FoldFitted,
    cross_validate,
    predict_out_of_fold,
)
from frostbench.training.data.part import Data
from frostbench.training.engine.events import Failed
from frostbench.training.metrics.classification import brier, confidence
from frostbench.training.run import RunSpec

Progress = Callable[[int, int], None]
"""Called with the number of finished fits and of all fits."""


def ignore(done: int, fits: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class HeldOut:
    """Held-out predictions of several runs for the same rows.

    Attributes:
        frame: the rows, N of them.
        predictions: predictions by name of the run; a run that failed has none.
        problems: why a run failed, by name.
    """

    frame: Frame
    predictions: dict[str, Predictions]
    problems: dict[str, str]


def cross_validated(
    runs: Mapping[str, RunSpec],
    table: FeatureTable,
    split: Split,
    folds: int,
    device: str = "cpu",
    most_rows: int | None = None,
    progress: Progress = ignore,
    has_epochs: bool = False,
) -> HeldOut:
    """Cross-validate runs, by name, on the training rows of a table; groups are never divided.

    Args:
        runs: runs by name, which read the same columns and have the same background classes.
        table: the table; its vectors may be on disk.
        split: role of each row; only rows with the role train are used.
        folds: number of folds.
        device: device of the fits, such as cpu or cuda.
        most_rows: number of rows from which a random part of the groups is used, with the same shares of the classes.
        progress: called after each fit.
        has_epochs: whether to choose the epochs of each run on the folds, which fits every fold twice; otherwise the
            schedules are trained to their end.

    Raises:
        ValueError: the rows have too few groups, or a run cannot be cross-validated.
    """
    chosen = split.roles == "train"
    groups = _numbered(merge_groups(table.groups, table.content))
    if most_rows is not None and chosen.sum() > most_rows:
        chosen = _sampled(chosen, table, groups, most_rows)
    found = make_folds(table.labels[chosen], groups[chosen], SplitSpec(folds=folds, test=0), table.has_groups)
    first = next(iter(runs.values()))
    columns = list(first.columns) or None
    none = part_of(table, np.zeros_like(chosen), columns, device)
    data = Data(part_of(table, chosen, columns, device), none, none, tuple(table.class_names))
    names, predictions, problems = list(runs), dict[str, Predictions](), dict[str, str]()
    done: dict[int, int] = {}
    fits: dict[int, int] = {}
    predict = cross_validate if has_epochs else predict_out_of_fold
    for event in predict(list(runs.values()), data, torch.from_numpy(found)):
        if isinstance(event, CrossValidated):
            predictions[names[event.run]] = _predictions(event.predictions, data)
        elif isinstance(event, tuple):
            predictions[names[event[0]]] = _predictions(event[1], data)
        elif isinstance(event, Failed):
            problems[names[event.run]] = event.message
        elif isinstance(event, FoldFitted):
            done[event.run], fits[event.run] = event.done, event.fits
            progress(sum(done.values()), math.ceil(sum(fits.values()) / len(fits) * len(runs)))
    return HeldOut(_frame(table, chosen, groups[chosen], first.background), predictions, problems)


def _numbered(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number groups [N] by their first row, so that folds do not depend on hashes of the images or vectors.

    >>> _numbered(np.array([7, 7, 2, 9, 2])).tolist()
    [0, 0, 1, 2, 1]
    """
    first, group_of = np.unique(groups, return_index=True, return_inverse=True)[1:]
    return np.argsort(np.argsort(first))[group_of]


def _sampled(
    chosen: npt.NDArray[np.bool_], table: FeatureTable, groups: npt.NDArray[np.int64], most: int
) -> npt.NDArray[np.bool_]:
    """Return a mask [N] of about `most` of the chosen rows: whole groups, with the same shares of the classes."""
    rows = np.flatnonzero(chosen)
    parts = math.ceil(len(rows) / most)
    part = cut(table.labels[rows], groups[rows], parts, seed=0, stated=table.has_groups)
    kept = np.zeros_like(chosen)
    kept[rows[part == 0]] = True
    return kept


def _frame(
    table: FeatureTable,
    chosen: npt.NDArray[np.bool_],
    groups: npt.NDArray[np.int64],
    background: Sequence[str],
) -> Frame:
    labels = table.labels[chosen].astype(np.int64)
    group_indices = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    counts = np.bincount(labels, minlength=len(table.class_names))
    return Frame(labels, group_indices, counts, tuple(table.class_names.index(name) for name in background))


def _predictions(held_out: CrossFitted, data: Data) -> Predictions:
    labels = data.train.labels.cpu()
    return Predictions(
        held_out.predicted.numpy(),
        confidence(held_out.log_p, labels, held_out.predicted)[0].double().numpy(),
        confidence(held_out.logits.double().log_softmax(1), labels, held_out.predicted)[0].double().numpy(),
        held_out.log_p.double().gather(1, labels[:, None]).squeeze(1).numpy(),
        brier(held_out.log_p, labels).double().numpy(),
    )
