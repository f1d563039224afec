"""Batches of one pass over the training rows."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec, empty
from frostbench.training.sampling.samplers import ClassBatches, Sampler, class_shares, draw_rows


class Shuffled(Spec):
    """Shuffled rows, cut into batches of train.schedule.batch_size.

    Kang et al., "Decoupling representation and classifier for long-tailed recognition", ICLR 2020, section 3, for all
    draws but instance.
    """

    kind: Literal["shuffled"] = "shuffled"
    draw: Sampler = Field(default="instance", title="Sampling of classes")
    """Share of a class in drawn rows: by size (instance), by its root, equal, or from size to equal (progressive)."""
    buffer_rows: int | None = Field(
        default=None, ge=2, le=2**31 - 1, json_schema_extra=empty("all rows"), title="Shuffle buffer (rows)"
    )
    """Rows shuffled together at a time, so that the others can stay on disk; null shuffles all rows at once."""
    block_rows: int = Field(default=4096, ge=1, le=2**30, title="Shuffle block (rows)")
    """Neighbouring rows that enter the buffer as one block, blocks in random order; used only with a shuffle buffer."""

    def blocks_at_once(self, rows: int) -> int:
        """Return the number of blocks that the buffer holds, out of `rows` rows.

        >>> Shuffled(buffer_rows=1000, block_rows=300).blocks_at_once(10_000), Shuffled().blocks_at_once(10_000)
        (3, 3)
        """
        return max(1, (self.buffer_rows or rows + self.block_rows - 1) // self.block_rows)

    def ordered(self, drawn: Tensor, rows: int, generator: torch.Generator) -> Tensor:
        """Sort row indices [n], drawn for one pass over `rows` rows, into the order of the buffer.

        Blocks fill one buffer after the other in random order; rows within a buffer keep the order of the draw.
        """
        if self.buffer_rows is None:
            return drawn
        return drawn[self.buffers(drawn, rows, generator).argsort(stable=True)]

    def buffers(self, drawn: Tensor, rows: int, generator: torch.Generator) -> Tensor:
        """Return the number [n], from 0, of the buffer that holds each drawn row in a pass over `rows` rows."""
        blocks = -(-rows // self.block_rows)
        of_block = torch.empty(blocks, dtype=torch.int64)
        of_block[torch.randperm(blocks, generator=generator)] = torch.arange(blocks) // self.blocks_at_once(rows)
        return of_block[drawn // self.block_rows]


SamplerSpec = Annotated[Shuffled | ClassBatches, Field(discriminator="kind")]


def batches_of(
    sampler: Shuffled | ClassBatches, labels: Tensor, size: int, generator: torch.Generator, progress: float
) -> list[Tensor]:
    """Draw the batches of one pass, as row indices, over rows with labels [N] at a training progress from 0 to 1."""
    if isinstance(sampler, ClassBatches):
        return sampler.batches(labels, generator)
    drawn = draw_rows(sampler.draw, labels, generator, progress)
    return list(torch.split(sampler.ordered(drawn, len(labels), generator), size))


def shares_of(sampler: Shuffled | ClassBatches, counts: Tensor, progress: float) -> Tensor:
    """Return the share [C] of each class in the rows drawn at a progress from 0 to 1, for counts [C]; float64."""
    if isinstance(sampler, ClassBatches):
        return sampler.shares(counts)
    return class_shares(sampler.draw, counts, progress)
