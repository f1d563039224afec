"""Training rows that stay on disk: a buffer of them is in memory, and batches are cut from it."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from frostbench.heads.preprocess import ROWS_AT_ONCE, Affine, Standardise
from frostbench.training.data.part import Part
from frostbench.training.sampling.batches import Shuffled

ABSENT = -(2**62)
"""What is added to the number of a row that is not in the buffer: no buffer is as long."""


class StreamedRows:
    """Preprocessed rows [N, D] of a stored part.

    They are asked for by number, like those of a tensor. The blocks in which they lie are read into the buffer, and
    take the places of those that were read longest ago. Any order gives the right rows; the order of
    `Shuffled.buffer_rows` reads each block once in a pass.

    Attributes:
        shape: N and D.
        dtype: float32.
        device: where the buffer is.
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
        # Blocks in the order in which they were read, and the slot that is taken next.
        self._held: list[int] = []
        self._free = list(range(slots))

    def __getitem__(self, rows: Tensor) -> Tensor:
        """The rows [B, D] with these numbers [B]."""
        blocks = rows // self._block
        places = rows + self._shift[blocks]
        if int(places.min()) >= 0:
            return self._buffer[places]
        return self._gathered(rows, blocks, places)

    def _gathered(self, rows: Tensor, blocks: Tensor, places: Tensor) -> Tensor:
        """Rows of which some are not in the buffer; those that are in it are taken before others replace them."""
        found = self._buffer.new_empty(len(rows), self.shape[1])
        left = torch.ones_like(rows, dtype=torch.bool)
        while True:
            here = left & (places >= 0)
            found[here] = self._buffer[places[here]]
            left &= ~here
            missing = torch.unique(blocks[left]).tolist()
            if not missing:
                return found
            for block in missing[: len(self._buffer) // self._block]:
                self._load(block)
            places = rows + self._shift[blocks]

    def _load(self, block: int) -> None:
        if not self._free:
            oldest = self._held.pop(0)
            self._free.append((int(self._shift[oldest]) + oldest * self._block) // self._block)
            self._shift[oldest] = ABSENT
        slot, start = self._free.pop(), block * self._block
        count = min(self._block, self.shape[0] - start)
        self._fill(self._buffer[slot * self._block : slot * self._block + count], start)
        self._shift[block] = slot * self._block - start
        self._held.append(block)

    def pieces(self) -> Iterator[Tensor]:
        """All rows in their order, as many at a time as a block has, [n, D]."""
        for start in range(0, self.shape[0], self._block):
            piece = self._buffer.new_empty(min(self._block, self.shape[0] - start), self.shape[1])
            yield self._fill(piece, start)

    @torch.no_grad()
    def _fill(self, out: Tensor, start: int) -> Tensor:
        """Read as many rows as out [n, D] has, preprocessed, into it."""
        return self._preprocess.apply_(self._part.read_into(out, self._names, start))


class FrontedRows:
    """What each of K heads reads of streamed rows where a part of it, its front, is frozen: computed batch by batch."""

    def __init__(self, rows: StreamedRows, fronts: Sequence[nn.Module]) -> None:
        self.device = rows.device
        self._rows, self._fronts = rows, list(fronts)

    @torch.no_grad()
    def batch(self, rows: Tensor) -> Tensor:
        """The outputs [K, B, H] of the fronts for the rows with these numbers [B]."""
        x = self._rows[rows]
        return torch.stack([front(x) for front in self._fronts])

    def of(self, chosen: Tensor) -> "FrontedRows":
        """Those of the chosen heads [K']."""
        return FrontedRows(self._rows, [self._fronts[place] for place in chosen.tolist()])


@torch.no_grad()
def fronted(x: Tensor | StreamedRows, fronts: Sequence[nn.Module]) -> Tensor | FrontedRows:
    """The outputs [K, N, H] of K frozen fronts for rows [N, D]: of all rows at once, or of each batch."""
    return FrontedRows(x, fronts) if isinstance(x, StreamedRows) else torch.stack([front(x) for front in fronts])


@torch.no_grad()
def streamed(
    part: Part, names: tuple[str, ...], spec: Standardise, sampler: Shuffled, widths: Sequence[int] = ()
) -> tuple[Affine, StreamedRows]:
    """The transform that is fitted to the rows of a stored part, which are read once for it, and the rows it gives.

    Args:
        part: the rows.
        names: of the columns that are joined.
        spec: of the transform.
        sampler: of the rows.
        widths: of the columns that have a unit of their own each.
    """
    preprocess = spec.build_from(part.pieces(names, ROWS_AT_ONCE), widths)
    return preprocess, StreamedRows(part, names, preprocess, sampler)
