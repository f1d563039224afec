"""Training rows joined with the views that a run names."""

from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.training.data.part import Data, Part
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class Joined:
    """Training rows, with views behind them.

    Attributes:
        part: the rows; each view counts to the image of the row that it shows.
        partners: [N] int64 class that shares the label; None where no label is shared.
        shares: [N] float32 of the label that is the row's own; None likewise.
    """

    part: Part
    partners: Tensor | None = None
    shares: Tensor | None = None


def joined_images(run: RunSpec, data: Data) -> Tensor | None:
    """Number [N] of the image that each training row shows, views that a run names included; None where each is one."""
    part = data.train
    if not run.view_sets:
        return part.images
    images = torch.arange(len(part), device=part.labels.device) if part.images is None else part.images
    return torch.cat([images, *(images[data.views[name].rows] for name in run.view_sets)])


def joined_count(run: RunSpec, data: Data) -> int:
    """How many rows a run holds: the training rows, and the views that it names."""
    return len(data.train) + sum(len(data.views[name].rows) for name in run.view_sets)


def stepped_rows(run: RunSpec, data: Data) -> int:
    """How many rows a pass of a run has before any are made up: with its views, unless these are averaged."""
    if run.train.views == "averaged":
        images = joined_images(run, data)
        return len(data.train) if images is None else len(torch.unique(images))
    return joined_count(run, data)


def joined_rows(run: RunSpec, data: Data, columns: tuple[str, ...]) -> Joined:
    """The training rows of a run with the views that it names, in the order in which it names their sets."""
    part = data.train
    if not run.view_sets:
        return Joined(part)
    sets = [data.views[name] for name in run.view_sets]
    rows = torch.cat([views.rows for views in sets])
    whole = Part(
        {name: torch.cat([part.columns[name], *(views.columns[name] for views in sets)]) for name in columns},
        torch.cat([part.labels, part.labels[rows]]),
        None if part.groups is None else torch.cat([part.groups, part.groups[rows]]),
        images=joined_images(run, data),
    )
    if not any(views.is_shared for views in sets):
        return Joined(whole)
    partners = torch.cat([part.labels, *(views.partners for views in sets)])
    shares = torch.cat([torch.ones(len(part), device=rows.device), *(views.shares for views in sets)])
    return Joined(whole, partners, shares)
