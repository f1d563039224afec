"""Data: the arrays that a run trains on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor


class StoredColumn(Protocol):
    """Vectors [N, D] that stay on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows N and dimensions D."""

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Rows start to stop - 1, [stop - start, D], in float16 or float32."""


@dataclass(frozen=True)
class Part:
    """Rows with one duty.

    Attributes:
        columns: named vectors, each [N, D], or tokens [N, T, D]; empty where they stay on disk.
        labels: [N] int64.
        groups: [N] int64 group of each row, such as the plant it shows; None where no option counts groups.
        stored: named vectors where they stay on disk; empty where they are in memory.
        images: [N] int64 number of the image that each row is a view of; None where each row is an image of its own.
        also: vectors of further views of the rows' images by COLUMN@VIEW; predictions average over those that a run
            names.

    Raises:
        ValueError: there is no column, or shapes or types are not as above.
    """

    columns: dict[str, Tensor]
    labels: Tensor
    groups: Tensor | None = None
    stored: Mapping[str, StoredColumn] = field(default_factory=dict)
    images: Tensor | None = None
    also: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = self.shapes
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

        short = [name for name, x in self.also.items() if len(x) != len(self.labels)]
        if short:
            raise ValueError(
                f"each row of a part has all views, however: {short} have other than its {len(self.labels)} rows. "
                "Leave out views that some image lacks."
            )
        if self.images is not None:
            self._check_images(self.images)

    def _check_images(self, images: Tensor) -> None:
        if images.shape != self.labels.shape or images.dtype != torch.int64:
            raise ValueError(
                f"a part names the image of each of its {len(self.labels)} rows by an int64 number, however: "
                f"{images.dtype} {list(images.shape)} came. Pass those of the same rows."
            )
        pairs = torch.unique(torch.stack([images, self.labels], 1), dim=0)
        if len(pairs) > len(torch.unique(images)):
            raise ValueError(
                "views of one image have its label, however: some image has two. Give each image a number of its own."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_stored(self) -> bool:
        """Whether the vectors stay on disk."""
        return bool(self.stored)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each column, wherever it is."""
        return {name: tuple(x.shape) for name, x in (self.stored or self.columns).items()}

    def read(self, names: tuple[str, ...], start: int, stop: int) -> Tensor:
        """Rows start to stop - 1 of the named columns of a stored part, joined, [n, sum of D] float32."""
        dim = sum(self.stored[name].shape[-1] for name in names)
        return self.read_into(torch.empty(stop - start, dim, device=self.labels.device), names, start)

    def read_into(self, out: Tensor, names: tuple[str, ...], start: int) -> Tensor:
        """As `read`, of as many rows as out [n, sum of D] has, which is filled and returned."""
        place = 0
        for name in names:
            x = torch.from_numpy(self.stored[name].read(start, start + len(out)))
            out[:, place : place + x.shape[1]].copy_(x)
            place += x.shape[1]
        return out

    def pieces(self, names: tuple[str, ...], size: int) -> Iterator[Tensor]:
        """The named columns joined: of a stored part that many rows at a time, else all in one."""
        self.check_names(names)
        if not self.is_stored:
            yield self.features(names)
            return
        for start in range(0, len(self), size):
            yield self.read(names, start, min(start + size, len(self)))

    def features(self, names: tuple[str, ...]) -> Tensor:
        """The named columns joined, [N, sum of D], or tokens [N, T, sum of D]; float32, or float64 where they are.

        Raises:
            ValueError: a name is not among the columns.
        """
        self.check_names(names)
        if self.is_stored:
            raise ValueError(
                f"rows that stay on disk are read some at a time, however: all {len(self)} were asked for. Read the "
                "table into memory."
            )
        found = [self.columns[name] for name in names]
        if len({x.shape[:-1] for x in found}) > 1:
            raise ValueError(
                f"columns that are joined hold as many tokens each, however: {[list(x.shape) for x in found]} came. "
                "Name columns of one kind."
            )
        return torch.cat([x if x.dtype == torch.float64 else x.float() for x in found], -1)

    def seen_by(self, names: Sequence[str]) -> dict[str, Tensor]:
        """The named columns and views, on the CPU, as a head reads them."""
        every = {**self.columns, **self.also}
        return {name: every[name].cpu() for name in names}

    def check_names(self, names: tuple[str, ...]) -> None:
        """Refuse a name that is not among the columns."""
        missing = [name for name in names if name not in self.shapes]
        if missing:
            raise ValueError(
                f"a run reads columns of its table, however: {missing} came and the table has {sorted(self.shapes)}. "
                "Change `columns`, or extract with that pooling."
            )


@dataclass(frozen=True)
class Views:
    """Views of training rows, which runs may train on beside them.

    Attributes:
        columns: named vectors [V, D], of the columns of the training rows.
        rows: [V] int64 number of the training row whose image each shows.
        partners: [V] int64 class that shares the label; the image's own where none does.
        shares: [V] float32 of the label that is the image's own; 1 where no class shares it.

    Raises:
        ValueError: shapes or types are not as above.
    """

    columns: dict[str, Tensor]
    rows: Tensor
    partners: Tensor
    shares: Tensor

    def __post_init__(self) -> None:
        count = len(self.rows)
        sizes = [len(x) for x in (*self.columns.values(), self.partners, self.shares)]
        if not self.columns or set(sizes) != {count} or self.rows.dtype != torch.int64:
            raise ValueError(
                f"views have vectors, an int64 row, a partner's class and a share each, however: {count} rows of "
                f"{self.rows.dtype} came with {sizes}. Pass as many of each."
            )

    @property
    def is_shared(self) -> bool:
        """Whether a label is shared between two classes."""
        return bool((self.shares < 1).any())


@dataclass(frozen=True)
class Data:
    """Training rows, rows that select (epoch, hyper-parameters) and rows that calibrate; never test rows.

    Attributes:
        train: rows the loss sees.
        select: rows the early stopping watches.
        calibrate: rows post-hoc layers are fitted on.
        class_names: C names; labels index them.
        views: of training rows, by the name of their set.
        averaged: by the name of their set, how the views that predictions are averaged over are made: data by view.

    Raises:
        ValueError: parts have other columns or dimensions, or a label lies outside 0..C-1.
    """

    train: Part
    select: Part
    calibrate: Part
    class_names: tuple[str, ...]
    views: Mapping[str, Views] = field(default_factory=dict)
    averaged: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = {"train": self.train, "select": self.select, "calibrate": self.calibrate}
        shapes = {role: {name: list(x[1:]) for name, x in part.shapes.items()} for role, part in parts.items()}
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
        return next(iter(self.train.shapes))
