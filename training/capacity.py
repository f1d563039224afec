"""How much memory a stack takes, told before it is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import psutil
import torch

from heads.body import Blocks
from heads.head import Closed, Core, linear_of
from training.checks import columns_of
from training.data import Data
from training.run import RunSpec
from training.second import Crt, Lws
from training.terms import Terms

COPIES_OF_PARAMETERS = 6
"""Values, gradients, two averages of AdamW, and twice the best so far while one replaces the other."""
COPIES_OF_ACTIVATIONS = 8
"""Outputs of a layer, of its norm, activation and dropout, with as much again for their gradients."""
COPIES_OF_LOGITS = 4
"""Of the selection rows: logits, log-probabilities, and these again in float64."""
COPIES_OF_FEATURES = 2
"""What the second stage reads of all rows, which each head has for itself; once more while the heads are joined."""
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
    columns = [data.train.columns[name] for name in columns_of(run, data)]
    size = 8 if any(x.dtype == torch.float64 for x in columns) else 4
    inside = columns[0].shape[1:-1]
    width, classes = sum(x.shape[-1] for x in columns), len(data.class_names)
    # Joined and preprocessed.
    rows = 2 * size * (len(data.train) + len(data.select)) * prod(inside) * width
    if isinstance(run.head.classifier, Closed):
        return Need(2 * rows, 1)
    nothing = torch.Generator()
    body = run.head.body.build(width, nothing)
    core = Core(body, run.head.classifier.build(body.width, classes, nothing))
    trained = [*core.parameters(), *Terms(run.train.loss, core, nothing).parameters()]
    hidden = [linear_of(linear).out_features for linear in body.linears] if isinstance(body, Blocks) else []
    batch = min(run.train.schedule.batch_size, len(data.train))
    numbers = COPIES_OF_PARAMETERS * sum(p.numel() for p in trained)
    numbers += COPIES_OF_ACTIVATIONS * batch * (sum(hidden) + classes)
    numbers += COPIES_OF_LOGITS * len(data.select) * classes
    if isinstance(run.second, Crt | Lws):
        seen = core.width if isinstance(run.second, Crt) else classes
        numbers += COPIES_OF_FEATURES * (len(data.train) + len(data.select)) * seen
    return Need(rows, size * numbers)


def parts_that_fit(numbers: Sequence[int], runs: Sequence[RunSpec], data: Data, free: int) -> list[list[int]]:
    """Places of runs of one skeleton, cut into stacks that fit into free bytes.

    Raises:
        ValueError: the memory is too small for one head.
    """
    need = need_of(runs[numbers[0]], data)
    fitting = need.heads_within(free)
    if fitting == 0:
        raise ValueError(
            f"a stack must fit into memory, however: its rows take {_gigabytes(need.rows)} and each head "
            f"{_gigabytes(need.head)}, and of {_gigabytes(free)} free {SHARE:.0%} are used. Train on fewer rows or "
            "columns, with a smaller train.schedule.batch_size or head.body, or on a machine with more memory."
        )
    return [list(numbers[start : start + fitting]) for start in range(0, len(numbers), fitting)]


def free_bytes(data: Data) -> int:
    """Memory that is free where data is."""
    device = data.train.labels.device
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB"
