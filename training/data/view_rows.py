"""Training rows joined with the view sets that a run names."""

from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.training.data.part import Data, Part
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class Joined:
    """Training rows followed by their views.

    Attributes:
        part: the rows; a view has the image index of the row that it shows.
        partners: second class [N] of each label, int64, or None if no label is mixed.
        shares: share [N] of the row's own class in its label, float32, or None if no label is mixed.
    """

    part: Part
    partners: Tensor | None = None
    shares: Tensor | None = None


def joined_images(run: RunSpec, data: Data) -> Tensor | None:
    """Return the image index [N] of each training row and named view, or None if each row is a different image."""
    part = data.train
    if not run.view_sets:
        return part.images
    images = torch.arange(len(part), device=part.labels.device) if part.images is None else part.images
    return torch.cat([images, *(images[data.views[name].rows] for name in run.view_sets)])


def joined_count(run: RunSpec, data: Data) -> int:
    """Count the training rows and the views that a run names."""
    return len(data.train) + sum(len(data.views[name].rows) for name in run.view_sets)


def stepped_rows(run: RunSpec, data: Data) -> int:
    """Count the rows of a pass without synthetic rows: views are rows unless they are averaged."""
    if run.train.views == "averaged":
        images = joined_images(run, data)
        return len(data.train) if images is None else len(torch.unique(images))
    return joined_count(run, data)


def joined_rows(run: RunSpec, data: Data, columns: tuple[str, ...]) -> Joined:
    """Join the training rows of a run with the views that it names, in the order of their sets."""
    part = data.train
    if not run.view_sets:
        return Joined(part)
    sets = [data.views[name] for name in run.view_sets]
    rows = torch.cat([views.rows for views in sets])
    joined = Part(
        {name: torch.cat([part.columns[name], *(views.columns[name] for views in sets)]) for name in columns},
        torch.cat([part.labels, part.labels[rows]]),
        None if part.groups is None else torch.cat([part.groups, part.groups[rows]]),
        images=joined_images(run, data),
    )
    if not any(views.is_shared for views in sets):
        return Joined(joined)
    partners = torch.cat([part.labels, *(views.partners for views in sets)])
    shares = torch.cat([torch.ones(len(part), device=rows.device), *(views.shares for views in sets)])
    return Joined(joined, partners, shares)
