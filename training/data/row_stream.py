"""Training rows that stay on disk and are read block by block into a buffer in memory."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from frostbench.heads.preprocess import ROWS_AT_ONCE, Affine, Standardise
from frostbench.training.data.part import Part
from frostbench.training.sampling.batches import Shuffled

ABSENT = -(2**62)
"""Shift of a block that is not in the buffer; it makes the slots of its rows negative."""


class StreamedRows:
    """Preprocessed rows [N, D] of a stored part, indexed like a tensor.

    The blocks that contain the rows are read into the buffer and replace the oldest ones. Any order gives the right
    rows; the order of `Shuffled.buffer_rows` reads each block once per pass.

    Attributes:
        shape: N and D.
        dtype: float32.
        device: device of the buffer.
    """

    def __init__(self, part: Part, names: tuple[str, ...], preprocess: Affine, sampler: Shuffled) -> None:
        self.shape = (len(part), sum(part.shapes[name][-1] for name in names))
        self.dtype, self.device = torch.float32, part.labels.device
        self._part, self._names, self._preprocess = part, names, preprocess
        self._block = sampler.block_rows
        blocks = -(-len(part) // self._block)
        slots = min(sampler.blocks_at_once(len(part)), blocks)
        self._buffer = torch.empty(slots * self._block, self.shape[1], dtype=self.dtype, device=self.device)
        self._shift = torch.full((blocks,), ABSENT, device=self.device)
        # Loaded blocks, oldest first.
        self._loaded: list[int] = []
        self._free = list(range(slots))

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the rows [B, D] with these indices [B]."""
        blocks = rows // self._block
        slots = rows + self._shift[blocks]
        if int(slots.min()) >= 0:
            return self._buffer[slots]
        return self._gather(rows, blocks, slots)

    def _gather(self, rows: Tensor, blocks: Tensor, slots: Tensor) -> Tensor:
        """Return rows, some of them not in the buffer; buffered rows are copied before their blocks are replaced."""
        gathered = self._buffer.new_empty(len(rows), self.shape[1])
        left = torch.ones_like(rows, dtype=torch.bool)
        while True:
            here = left & (slots >= 0)
            gathered[here] = self._buffer[slots[here]]
            left &= ~here
            missing = torch.unique(blocks[left]).tolist()
            if not missing:
                return gathered
            for block in missing[: len(self._buffer) // self._block]:
                self._load(block)
            slots = rows + self._shift[blocks]

    def _load(self, block: int) -> None:
        if not self._free:
            oldest = self._loaded.pop(0)
            self._free.append((int(self._shift[oldest]) + oldest * self._block) // self._block)
            self._shift[oldest] = ABSENT
        slot, start = self._free.pop(), block * self._block
        count = min(self._block, self.shape[0] - start)
        self._fill(self._buffer[slot * self._block : slot * self._block + count], start)
        self._shift[block] = slot * self._block - start
        self._loaded.append(block)

    def pieces(self) -> Iterator[Tensor]:
        """Yield all rows in order, one block [n, D] at a time."""
        for start in range(0, self.shape[0], self._block):
            piece = self._buffer.new_empty(min(self._block, self.shape[0] - start), self.shape[1])
            yield self._fill(piece, start)

    @torch.no_grad()
    def _fill(self, out: Tensor, start: int) -> Tensor:
        """Read the n rows from `start` on into out [n, D], and preprocess them."""
        return self._preprocess.apply_(self._part.read_into(out, self._names, start))


class FrontedRows:
    """Outputs of K frozen fronts (layers before a head's trained part) for streamed rows, computed batch by batch."""

    def __init__(self, rows: StreamedRows, fronts: Sequence[nn.Module]) -> None:
        self.device = rows.device
        self._rows, self._fronts = rows, list(fronts)

    @torch.no_grad()
    def batch(self, rows: Tensor) -> Tensor:
        """Return the outputs [K, B, H] of the fronts for the rows with these indices [B]."""
        x = self._rows[rows]
        return torch.stack([front(x) for front in self._fronts])

    def of(self, chosen: Tensor) -> "FrontedRows":
        """Return the rows of the heads at the chosen indices [K']."""
        return FrontedRows(self._rows, [self._fronts[index] for index in chosen.tolist()])


@torch.no_grad()
def fronted(x: Tensor | StreamedRows, fronts: Sequence[nn.Module]) -> Tensor | FrontedRows:
    """Return the outputs [K, N, H] of K frozen fronts for rows [N, D], computed at once or, if streamed, per batch."""
    return FrontedRows(x, fronts) if isinstance(x, StreamedRows) else torch.stack([front(x) for front in fronts])


@torch.no_grad()
def streamed(
    part: Part, names: tuple[str, ...], spec: Standardise, sampler: Shuffled, widths: Sequence[int] = ()
) -> tuple[Affine, StreamedRows]:
    """Fit the preprocessing to a stored part, reading it once, and return it with the streamed rows.

    Args:
        part: the rows.
        names: names of the columns to join.
        spec: spec of the preprocessing.
        sampler: sampler of the rows.
        widths: widths of the columns if each is divided by a unit of its own (see `frostbench.heads.preprocess`).
    """
    preprocess = spec.build_from(part.pieces(names, ROWS_AT_ONCE), widths)
    return preprocess, StreamedRows(part, names, preprocess, sampler)
