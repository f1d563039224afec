"""The arrays that a run trains on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
import torch
from torch import Tensor


class StoredColumn(Protocol):
    """A column of vectors [N, D] on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows N and dimensions D."""

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Read rows start to stop - 1 as [stop - start, D] in float16 or float32."""


@dataclass(frozen=True)
class Part:
    """Rows of one role: training, validation or calibration.

    Attributes:
        columns: vectors [N, D] or tokens [N, T, D] by column name; empty if they stay on disk.
        labels: class indices [N], int64.
        groups: group index [N] of each row, int64, such as the plant it shows; None if no option uses groups.
        stored: vectors on disk by column name; empty if they are in memory.
        images: image index [N] of each row, int64, or None if each row is a different image.
        also: vectors of further views of the same images by COLUMN@VIEW, for test-time augmentation.

    Raises:
        ValueError: there is no column, or a shape or type differs from the above.
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
                "A part needs columns [N, D] or [N, T, D] with one row for each of its N labels, got "
                f"{len(self.labels)} {'label' if len(self.labels) == 1 else 'labels'} and {shapes}. Were failed images "
                "dropped from only one of them?"
            )
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise ValueError(
                f"Labels must be int64 class indices [N], got {self.labels.dtype} {list(self.labels.shape)}."
            )
        if self.groups is not None and self.groups.shape != self.labels.shape:
            raise ValueError(
                f"Groups must have one entry for each of the {len(self.labels)} rows, got {len(self.groups)}. Pass the "
                "groups of these rows."
            )
        short = [name for name, x in self.also.items() if len(x) != len(self.labels)]
        if short:
            raise ValueError(
                f"Every view must have {len(self.labels)} rows like its part, but {short} have a different number. "
                "Leave out views that some images lack."
            )
        if self.images is not None:
            self._check_images(self.images)

    def _check_images(self, images: Tensor) -> None:
        if images.shape != self.labels.shape or images.dtype != torch.int64:
            raise ValueError(
                f"Images must be one int64 index for each of the {len(self.labels)} rows, got {images.dtype} "
                f"{list(images.shape)}. Pass the image index of each row."
            )
        pairs = torch.unique(torch.stack([images, self.labels], 1), dim=0)
        if len(pairs) > len(torch.unique(images)):
            raise ValueError(
                "All views of an image must have the same label, but some image has two. Give each image its own index."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_stored(self) -> bool:
        """Whether the vectors stay on disk."""
        return bool(self.stored)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each column, in memory or on disk."""
        return {name: tuple(x.shape) for name, x in (self.stored or self.columns).items()}

    def read_into(self, out: Tensor, names: tuple[str, ...], start: int) -> Tensor:
        """Read the n rows of a stored part from `start` on into out [n, sum of D], columns joined, and return out."""
        offset = 0
        for name in names:
            x = torch.from_numpy(self.stored[name].read(start, start + len(out)))
            out[:, offset : offset + x.shape[1]].copy_(x)
            offset += x.shape[1]
        return out

    def pieces(self, names: tuple[str, ...], size: int) -> Iterator[Tensor]:
        """Yield the joined columns: `size` rows at a time for a stored part, otherwise all rows at once."""
        self.check_names(names)
        if not self.is_stored:
            yield self.features(names)
            return
        dim = sum(self.stored[name].shape[-1] for name in names)
        for start in range(0, len(self), size):
            rows = torch.empty(min(size, len(self) - start), dim, device=self.labels.device)
            yield self.read_into(rows, names, start)

    def features(self, names: tuple[str, ...]) -> Tensor:
        """Return the named columns joined into [N, sum of D], or tokens [N, T, sum of D], in float32 or float64.

        Raises:
            ValueError: a name is not among the columns, the part is stored, or the columns differ in number of tokens.
        """
        self.check_names(names)
        if self.is_stored:
            raise ValueError(
                f"Rows on disk are read block by block, but all {len(self)} were requested. Read the table into memory."
            )
        columns = [self.columns[name] for name in names]
        if len({x.shape[:-1] for x in columns}) > 1:
            raise ValueError(
                f"Joined columns must have the same number of tokens, got {[list(x.shape) for x in columns]}. Name "
                "columns of one kind."
            )
        return torch.cat([x if x.dtype == torch.float64 else x.float() for x in columns], -1)

    def seen_by(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Return the named columns and views on the CPU, as a head reads them."""
        available = {**self.columns, **self.also}
        return {name: available[name].cpu() for name in names}

    def check_names(self, names: tuple[str, ...]) -> None:
        """Check that all names are columns.

        Raises:
            ValueError: a name is not among the columns.
        """
        missing = [name for name in names if name not in self.shapes]
        if missing:
            raise ValueError(
                f"A run can only read columns of its table, got {missing}, but the table has {sorted(self.shapes)}. "
                "Change `columns`, or embed the images again with the poolings that give these columns."
            )


@dataclass(frozen=True)
class Views:
    """Views of training rows, which runs may use as additional training rows.

    Attributes:
        columns: vectors [V, D] by name, for the columns of the training rows.
        rows: index [V] of the training row whose image each view shows, int64.
        partners: second class [V] of a mixed label, int64; the image's own class if the label is not mixed.
        shares: share [V] of the image's own class in the label, float32; 1 if the label is not mixed.

    Raises:
        ValueError: there is no column, the lengths differ, or `rows` is not int64.
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
                f"Each view needs vectors, an int64 row, a partner class and a share, got {count} rows of "
                f"{self.rows.dtype} with sizes {sizes}. Pass the same number of each."
            )

    @property
    def is_shared(self) -> bool:
        """Whether any label is mixed from two classes."""
        return bool((self.shares < 1).any())


@dataclass(frozen=True)
class Data:
    """Training, validation and calibration rows; never test rows.

    Attributes:
        train: rows for the loss.
        select: validation rows, for choosing epochs and hyper-parameters.
        calibrate: rows for fitting post-hoc layers.
        class_names: names of the C classes that labels index.
        views: views of training rows, by view set.
        averaged: recipes of the views for test-time augmentation, by view set and view.

    Raises:
        ValueError: parts differ in columns or dimensions, or a label lies outside 0..C-1.
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
            raise ValueError(f"All parts must have the same columns and dimensions, got {shapes}.")
        classes = len(self.class_names)
        for role, part in parts.items():
            if len(part) > 0 and (part.labels.min() < 0 or part.labels.max() >= classes):
                raise ValueError(
                    f"Labels must lie in 0..C-1 for the {classes} classes of this table, but those of {role} span "
                    f"{int(part.labels.min())}..{int(part.labels.max())}. Were classes removed after embedding?"
                )

    @property
    def first_column(self) -> str:
        """The default column of a run that names none."""
        return next(iter(self.train.shapes))
