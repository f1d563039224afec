"""How one pass over the training rows is cut into batches."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from heads.spec import Spec
from training.samplers import ClassBatches, Sampler, class_shares, draw_rows


class Shuffled(Spec):
    """Shuffled rows, cut into batches of train.schedule.batch_size.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, section 3, for all
    but instance.
    """

    kind: Literal["shuffled"] = "shuffled"
    draw: Sampler = "instance"
    """How often a class is drawn: by its size (instance), its square root, alike, or from the first to the last."""


SamplerSpec = Annotated[Shuffled | ClassBatches, Field(discriminator="kind")]


def batches_of(
    sampler: Shuffled | ClassBatches, labels: Tensor, size: int, generator: torch.Generator, progress: float
) -> list[Tensor]:
    """Row numbers of the batches of one pass over rows with labels [N], at a progress from 0 to 1 of training."""
    if isinstance(sampler, ClassBatches):
        return sampler.batches(labels, generator)
    return list(torch.split(draw_rows(sampler.draw, labels, generator, progress), size))


def shares_of(sampler: Shuffled | ClassBatches, counts: Tensor, progress: float) -> Tensor:
    """Share [C] of each class in what is drawn at a progress from 0 to 1, from class counts [C]; float64."""
    if isinstance(sampler, ClassBatches):
        return sampler.shares(counts)
    return class_shares(sampler.draw, counts, progress)
