"""Few-shot training: the rows of each class that a run draws by its seed."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from frostbench.training.data.part import Data, Part, StoredColumn, Views
from frostbench.training.data.randomness import generator
from frostbench.training.run import RunSpec

ROWS_AT_ONCE = 65_536
"""Number of rows of a stored column that are read at a time."""


def drawn_rows(run: RunSpec, labels: Tensor, images: Tensor | None = None) -> Tensor | None:
    """Draw the training rows of a run with `shots`; with more shots, the rows of fewer shots are kept.

    Args:
        run: the run; its seed determines the draw.
        labels: class indices [N] of all training rows.
        images: image index [N] of each row, or None if each row is a different image; shots count images.

    Returns:
        Indices of the drawn rows in ascending order, int64, or None if the run uses all rows.
    """
    if run.shots == 0:
        return None
    units = torch.arange(len(labels)) if images is None else images.cpu()
    names, unit_of = torch.unique(units, return_inverse=True)
    label_of = torch.empty(len(names), dtype=torch.int64)
    label_of[unit_of] = labels.cpu()
    random = torch.rand(len(names), generator=generator(run.seed, "start", 4), dtype=torch.float64)
    order = random.argsort(stable=True)
    order = order[label_of[order].argsort(stable=True)]
    sorted_labels = label_of[order]
    rank = torch.arange(len(order)) - torch.searchsorted(sorted_labels, sorted_labels)
    kept = torch.zeros(len(names), dtype=torch.bool)
    kept[order[rank < run.shots]] = True
    return kept[unit_of].nonzero().squeeze(1).to(labels.device)


def few_shot(run: RunSpec, data: Data) -> Data:
    """Return the data with only those training rows, and their views, that a run draws."""
    rows = drawn_rows(run, data.train.labels, data.train.images)
    if rows is None:
        return data
    part = data.train
    train = Part(
        read_rows(part.stored, rows) if part.is_stored else {name: x[rows] for name, x in part.columns.items()},
        part.labels[rows],
        None if part.groups is None else part.groups[rows],
        images=None if part.images is None else part.images[rows],
        also={name: x[rows] for name, x in part.also.items()},
    )
    place = torch.full((len(part),), -1, dtype=torch.int64, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    return replace(data, train=train, views={name: _of_rows(views, place) for name, views in data.views.items()})


def _of_rows(views: Views, place: Tensor) -> Views:
    """Return the views of drawn rows; `place` [N] is the new index of each training row, or -1."""
    kept = place[views.rows] >= 0
    columns = {name: x[kept] for name, x in views.columns.items()}
    return Views(columns, place[views.rows[kept]], views.partners[kept], views.shares[kept])


def read_rows(stored: Mapping[str, StoredColumn], rows: Tensor) -> dict[str, Tensor]:
    """Read rows of stored columns, given by ascending indices, into memory as float32, block by block."""
    columns = {}
    for name, column in stored.items():
        blocks = []
        for start in range(0, column.shape[0], ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, column.shape[0])
            inside = rows[(rows >= start) & (rows < stop)].cpu() - start
            if len(inside):
                blocks.append(torch.from_numpy(column.read(start, stop))[inside])
        columns[name] = torch.cat(blocks).float().to(rows.device)
    return columns
