"""Estimates of the memory that a stack needs, made before it is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import psutil
import torch
from torch import nn

from frostbench.heads.bodies.attention_pool import Pool
from frostbench.heads.bodies.body import Blocks
from frostbench.heads.head import Core, linear_of
from frostbench.training.augment.frofa import OUTSIDE, NoFrofa
from frostbench.training.data.named import columns_of
from frostbench.training.data.part import Data, Part
from frostbench.training.data.view_rows import joined_count
from frostbench.training.losses.parts import LossParts
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled

COPIES_OF_ROWS = 3
"""Joined rows, preprocessed rows, and one temporary copy."""
COPIES_OF_PARAMETERS = 6
"""Values, gradients, two AdamW moments, and the best parameters twice while one copy replaces the other."""
COPIES_OF_ACTIVATIONS = 8
"""Outputs of a layer, its norm, its activation and its dropout, and their gradients."""
COPIES_OF_LOGITS = 4
"""Logits and log-probabilities of the validation rows, each also in float64."""
COPIES_OF_FEATURES = 2
"""Inputs of the second stage, separate for each head, and a temporary copy while the heads are stacked."""
COPIES_OF_HISTORY = 2
"""Values that a loss stores per training row, and a temporary copy when some heads of a stack end."""
COPIES_OF_BLOCK = 8
"""A block as read, joined and preprocessed, and twice in float64 for its moments."""
COPIES_OF_ENDS = 4
"""Lowest and highest values per channel for FroFA, and a temporary copy while they are compared with the next block."""
SHARE = 0.8
"""Share of the free memory that may be used."""


@dataclass(frozen=True)
class Need:
    """Bytes that a stack needs: `rows` once for its data, and `head` for each of its heads."""

    rows: int
    head: int

    def heads_within(self, free: int) -> int:
        """Return how many heads fit into SHARE of the free bytes beside the rows, or 0 if not even one does.

        >>> Need(rows=100, head=30).heads_within(200)
        2
        """
        return max(0, int((SHARE * free - self.rows) // self.head))


def need_of(run: RunSpec, data: Data) -> Need:
    """Estimate the memory that a stack of such runs needs on top of the data already loaded."""
    names, train = columns_of(run, data), data.train
    shapes, classes = [train.shapes[name] for name in names], len(data.class_names)
    size = 8 if any(train.columns[name].dtype == torch.float64 for name in names if not train.is_stored) else 4
    width = sum(shape[-1] for shape in shapes)
    count = joined_count(run, data)
    in_memory = _rows_in_memory(run, train) if train.is_stored else count
    rows = COPIES_OF_ROWS * size * (in_memory + len(data.select)) * prod(shapes[0][1:-1]) * width
    if run.head.classifier.is_closed_form:
        return Need(2 * rows, 1)
    unused = torch.Generator()
    body = run.head.body.build(width, unused)
    core = Core(body, run.head.classifier.build(body.width, classes, unused))
    loss = run.train.loss
    parts = LossParts(loss, core, classes, unused)
    trained = [*core.parameters(), *parts.parameters()]
    inside, batch = _activations(body, prod(shapes[0][1:-1]), width), min(run.train.batch_rows, count)
    numbers = COPIES_OF_PARAMETERS * sum(p.numel() for p in trained)
    compared = sum(method.resolved().batch_numbers(batch, classes) for method in loss.methods.values())
    numbers += COPIES_OF_ACTIVATIONS * batch * (inside + classes + compared)
    numbers += len(data.select) * (COPIES_OF_LOGITS * classes + inside)
    numbers += COPIES_OF_HISTORY * count * len(parts.row_buffers)
    second_width = run.second.width(core.width, classes)
    numbers += COPIES_OF_FEATURES * (len(data.select) + (0 if train.is_stored else count)) * second_width
    numbers += batch * second_width if train.is_stored else 0
    return Need(rows, size * numbers)


def _activations(body: nn.Module, tokens: int, width: int) -> int:
    """Return how many values one row takes inside a body."""
    if isinstance(body, Blocks):
        return sum(linear_of(linear).out_features for linear in body.linears)
    # Attention weights and pooled tokens of each attention head; the vector, its projection, and the residual twice.
    return body.heads * (tokens + width) + 4 * width if isinstance(body, Pool) else 0


def _rows_in_memory(run: RunSpec, train: Part) -> int:
    """Return the number of training rows that a stack holds in memory; for streamed rows, its buffers as such rows."""
    sampler = run.train.sampler
    if not (train.is_stored and isinstance(sampler, Shuffled)):
        return len(train)
    ends = 0 if isinstance(run.train.frofa, NoFrofa) else int(COPIES_OF_ENDS * OUTSIDE * len(train))
    buffer = sampler.blocks_at_once(len(train)) * sampler.block_rows
    return (buffer + COPIES_OF_BLOCK * sampler.block_rows + ends) // COPIES_OF_ROWS + 1


def parts_that_fit(numbers: Sequence[int], runs: Sequence[RunSpec], data: Data, free: int) -> list[list[int]]:
    """Split the indices of runs that could form one stack into stacks that each fit into the free bytes.

    Raises:
        ValueError: not even one head fits.
    """
    need = need_of(runs[numbers[0]], data)
    fitting = need.heads_within(free)
    if fitting == 0:
        buffer = "train.sampler.buffer_rows, " if data.train.is_stored else ""
        raise ValueError(
            f"The rows and one head must fit in {SHARE:.0%} of the {gigabytes(free)} of free memory, but the rows need "
            f"{gigabytes(need.rows)} and each head {gigabytes(need.head)}. Use fewer rows or columns, a smaller "
            f"{buffer}train.schedule.batch_size or head.body, or a machine with more memory."
        )
    return [list(numbers[start : start + fitting]) for start in range(0, len(numbers), fitting)]


def free_on(device: torch.device) -> int:
    """Return the free memory in bytes on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def gigabytes(count: int) -> str:
    """Format a number of bytes in GiB.

    >>> gigabytes(3 * 2**29)
    '1.50 GiB'
    """
    return f"{count / 2**30:.2f} GiB"
