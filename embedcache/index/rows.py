"""Rows of a vector column as unit vectors, read block by block from memory or disk."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.stored import StoredColumn
from frostbench.embedcache.table import FeatureTable

Vectors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UnitRows:
    """Rows of a column as unit vectors; only the requested block is in memory as float32.

    Attributes:
        source: float16 or float32 [N, D], or a column on disk.
    """

    source: np.ndarray | StoredColumn

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        rows, dim = self.source.shape
        return int(rows), int(dim)

    def block(self, start: int, stop: int) -> Vectors:
        """Return the rows start to stop - 1 as unit vectors, float32 [n, D]."""
        return to_unit(
            self.source[start:stop] if isinstance(self.source, np.ndarray) else self.source.read(start, stop)
        )

    def blocks(self, rows: int) -> Iterator[tuple[int, Vectors]]:
        """Yield blocks of this many rows, each with the number of its first row."""
        for start in range(0, self.shape[0], rows):
            yield start, self.block(start, min(start + rows, self.shape[0]))

    def only(self, rows: Numbers) -> "UnitRows":
        """Return the rows with these numbers, which must be increasing."""
        if len(rows) == self.shape[0]:
            return self
        if isinstance(self.source, np.ndarray):
            return replace(self, source=self.source[rows])
        chosen = np.zeros(self.shape[0], dtype=np.bool_)
        chosen[rows] = True
        return replace(self, source=self.source.only(chosen))


def to_unit(x: np.ndarray) -> Vectors:
    """Divide vectors [N, D] by their norms, in float32; zero vectors stay zero, so their cosines are 0.

    >>> to_unit(np.array([[3, 4], [0, 0]], np.float16)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    wide = x.astype(np.float32)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    np.divide(wide, length, out=wide, where=length > 0)
    return wide


def column_of(table: FeatureTable, name: str | None = None) -> tuple[str, UnitRows]:
    """Return the name and the rows of a column with one vector per image; by default the first by name.

    Raises:
        CacheError: the table has no such column, it holds tokens, or the table has no rows.
    """
    if len(table.ids) == 0:
        raise CacheError(
            "At least one row is needed, but this table has none. Repair the images that `frostbench cache bad` lists, "
            "and embed again."
        )
    there = table.stored or table.columns
    plain = sorted(each for each in there if len(there[each].shape) == 2)
    if not plain:
        raise CacheError(
            "A column with one vector per image is needed, but this table has none. Embed with a pooling such as avg."
        )
    if name is not None and name not in plain:
        raise CacheError(
            f"The column must be one of {plain}, which have one vector per image, got {name!r}. Choose one of these, "
            "or embed with a pooling such as avg."
        )
    chosen = plain[0] if name is None else name
    return chosen, UnitRows(there[chosen])
