"""How much memory a stack takes, told before it is trained."""

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
"""Joined, preprocessed, and once more on the way."""
COPIES_OF_PARAMETERS = 6
"""Values, gradients, two averages of AdamW, and twice the best so far while one replaces the other."""
COPIES_OF_ACTIVATIONS = 8
"""Outputs of a layer, of its norm, activation and dropout, with as much again for their gradients."""
COPIES_OF_LOGITS = 4
"""Of the selection rows: logits, log-probabilities, and these again in float64."""
COPIES_OF_FEATURES = 2
"""What the second stage reads of all rows, which each head has for itself; once more while the heads are joined."""
COPIES_OF_HISTORY = 2
"""What a loss remembers of each training row; once more when some heads of a stack have ended."""
COPIES_OF_BLOCK = 8
"""A block as it is read, joined and preprocessed, and twice in float64 for its moments."""
COPIES_OF_ENDS = 4
"""The outermost values of channels, low and high, for frofa; once more while another block is compared with them."""
SHARE = 0.8
"""Of the memory that is free, what is planned with."""


@dataclass(frozen=True)
class Need:
    """Bytes that a stack takes: for its rows whatever its width, and for each of its heads."""

    rows: int
    head: int

    def heads_within(self, free: int) -> int:
        """How many heads fit into free bytes, of which a share is used; 0 where not even one does.

        >>> Need(rows=100, head=30).heads_within(200)
        2
        """
        return max(0, int((SHARE * free - self.rows) // self.head))


def need_of(run: RunSpec, data: Data) -> Need:
    """What a stack of heads like that of a run takes beside the data that is there already."""
    names, train = columns_of(run, data), data.train
    shapes, classes = [train.shapes[name] for name in names], len(data.class_names)
    size = 8 if any(train.columns[name].dtype == torch.float64 for name in names if not train.is_stored) else 4
    width = sum(shape[-1] for shape in shapes)
    count = joined_count(run, data)
    held = _rows_held(run, train) if train.is_stored else count
    rows = COPIES_OF_ROWS * size * (held + len(data.select)) * prod(shapes[0][1:-1]) * width
    if run.head.classifier.is_closed_form:
        return Need(2 * rows, 1)
    nothing = torch.Generator()
    body = run.head.body.build(width, nothing)
    core = Core(body, run.head.classifier.build(body.width, classes, nothing))
    loss = run.train.loss
    parts = LossParts(loss, core, classes, nothing)
    trained = [*core.parameters(), *parts.parameters()]
    inside, batch = _inside(body, prod(shapes[0][1:-1]), width), min(run.train.batch_rows, count)
    numbers = COPIES_OF_PARAMETERS * sum(p.numel() for p in trained)
    compared = sum(method.resolved().batch_numbers(batch, classes) for method in loss.methods.values())
    numbers += COPIES_OF_ACTIVATIONS * batch * (inside + classes + compared)
    numbers += len(data.select) * (COPIES_OF_LOGITS * classes + inside)
    numbers += COPIES_OF_HISTORY * count * len(parts.row_buffers)
    seen = run.second.width(core.width, classes)
    numbers += COPIES_OF_FEATURES * (len(data.select) + (0 if train.is_stored else count)) * seen
    numbers += batch * seen if train.is_stored else 0
    return Need(rows, size * numbers)


def _inside(body: nn.Module, tokens: int, width: int) -> int:
    """Numbers of one row within a body."""
    if isinstance(body, Blocks):
        return sum(linear_of(linear).out_features for linear in body.linears)
    # Attention and the tokens it gathers, for each attention head; the vector, its map, and twice its residual.
    return body.heads * (tokens + width) + 4 * width if isinstance(body, Pool) else 0


def _rows_held(run: RunSpec, train: Part) -> int:
    """Training rows of which a stack holds its copies; of streamed ones as many as take that much."""
    sampler = run.train.sampler
    if not (train.is_stored and isinstance(sampler, Shuffled)):
        return len(train)
    ends = 0 if isinstance(run.train.frofa, NoFrofa) else int(COPIES_OF_ENDS * OUTSIDE * len(train))
    buffer = sampler.blocks_at_once(len(train)) * sampler.block_rows
    return (buffer + COPIES_OF_BLOCK * sampler.block_rows + ends) // COPIES_OF_ROWS + 1


def parts_that_fit(numbers: Sequence[int], runs: Sequence[RunSpec], data: Data, free: int) -> list[list[int]]:
    """Places of runs of one skeleton, cut into stacks that fit into free bytes.

    Raises:
        ValueError: the memory is too small for one head.
    """
    need = need_of(runs[numbers[0]], data)
    fitting = need.heads_within(free)
    if fitting == 0:
        buffer = "train.sampler.buffer_rows, " if data.train.is_stored else ""
        raise ValueError(
            f"a stack must fit into memory, however: its rows take {gigabytes(need.rows)} and each head "
            f"{gigabytes(need.head)}, and of {gigabytes(free)} free {SHARE:.0%} are used. Train on fewer "
            f"rows or columns, with a smaller {buffer}train.schedule.batch_size or head.body, or on a larger machine."
        )
    return [list(numbers[start : start + fitting]) for start in range(0, len(numbers), fitting)]


def free_bytes(data: Data) -> int:
    """Memory that is free where data is."""
    return free_on(data.train.labels.device)


def free_on(device: torch.device) -> int:
    """Bytes of memory that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def gigabytes(count: int) -> str:
    """A number of bytes for a person.

    >>> gigabytes(3 * 2**29)
    '1.50 GiB'
    """
    return f"{count / 2**30:.2f} GiB"
