"""Data: the arrays that a run trains on."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Rows with one duty.

    Attributes:
        columns: named vectors, each [N, D].
        labels: [N] int64.
    """

    columns: dict[str, Tensor]
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def features(self, names: tuple[str, ...]) -> Tensor:
        """The named columns joined, [N, sum of D], float32.

        Raises:
            ValueError: a name is not among the columns.
        """
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise ValueError(
                f"a run reads columns of its table, however: {missing} came and the table has "
                f"{sorted(self.columns)}. Change `columns`, or extract with that pooling."
            )
        return torch.cat([self.columns[name].float() for name in names], 1)


@dataclass(frozen=True)
class Data:
    """Training rows, rows that select (epoch, hyper-parameters) and rows that calibrate; never test rows.

    Attributes:
        train: rows the loss sees.
        select: rows the early stopping watches.
        calibrate: rows post-hoc layers are fitted on.
        class_names: C names; labels index them.
    """

    train: Part
    select: Part
    calibrate: Part
    class_names: tuple[str, ...]

    @property
    def first_column(self) -> str:
        """The column that a run reads when it names none."""
        return next(iter(self.train.columns))
