"""Data: the arrays that a run trains on."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Rows with one duty.

    Attributes:
        columns: named vectors, each [N, D], or tokens [N, T, D].
        labels: [N] int64.
        groups: [N] int64 group of each row, such as the plant it shows; None where no option counts groups.

    Raises:
        ValueError: there is no column, or shapes or types are not as above.
    """

    columns: dict[str, Tensor]
    labels: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        shapes = {name: tuple(x.shape) for name, x in self.columns.items()}
        if not shapes or any(len(shape) not in (2, 3) or shape[0] != len(self.labels) for shape in shapes.values()):
            raise ValueError(
                "a part needs columns [N, D] or [N, T, D] with a row for each of its N labels, however: "
                f"{len(self.labels)} labels came with {shapes}. Were failed images dropped from one of them?"
            )
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise ValueError(
                f"labels are int64 class indices [N], however: {self.labels.dtype} {list(self.labels.shape)} came."
            )
        if self.groups is not None and self.groups.shape != self.labels.shape:
            raise ValueError(
                f"a part names one group for each of its {len(self.labels)} rows, however: {len(self.groups)} came. "
                "Pass the groups of the same rows."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def features(self, names: tuple[str, ...]) -> Tensor:
        """The named columns joined, [N, sum of D], or tokens [N, T, sum of D]; float32, or float64 where they are.

        Raises:
            ValueError: a name is not among the columns.
        """
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise ValueError(
                f"a run reads columns of its table, however: {missing} came and the table has "
                f"{sorted(self.columns)}. Change `columns`, or extract with that pooling."
            )
        found = [self.columns[name] for name in names]
        if len({x.shape[:-1] for x in found}) > 1:
            raise ValueError(
                f"columns that are joined hold as many tokens each, however: {[list(x.shape) for x in found]} came. "
                "Name columns of one kind."
            )
        return torch.cat([x if x.dtype == torch.float64 else x.float() for x in found], -1)


@dataclass(frozen=True)
class Data:
    """Training rows, rows that select (epoch, hyper-parameters) and rows that calibrate; never test rows.

    Attributes:
        train: rows the loss sees.
        select: rows the early stopping watches.
        calibrate: rows post-hoc layers are fitted on.
        class_names: C names; labels index them.

    Raises:
        ValueError: parts have other columns or dimensions, or a label lies outside 0..C-1.
    """

    train: Part
    select: Part
    calibrate: Part
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        parts = {"train": self.train, "select": self.select, "calibrate": self.calibrate}
        shapes = {role: {name: list(x.shape[1:]) for name, x in part.columns.items()} for role, part in parts.items()}
        if len({str(sorted(dims.items())) for dims in shapes.values()}) > 1:
            raise ValueError(f"parts need the same columns and dimensions, however: they have {shapes}.")
        classes = len(self.class_names)
        for role, part in parts.items():
            if len(part) > 0 and (part.labels.min() < 0 or part.labels.max() >= classes):
                raise ValueError(
                    f"labels must lie in 0..C-1 for the {classes} classes of this table, however: those of {role} span "
                    f"{int(part.labels.min())}..{int(part.labels.max())}. Were classes filtered after extraction?"
                )

    @property
    def first_column(self) -> str:
        """The column that a run reads when it names none."""
        return next(iter(self.train.columns))
