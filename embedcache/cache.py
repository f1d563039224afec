"""The public class for reading a finished cache of vectors."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.counting import things
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_table


class Cache:
    """A finished cache: the vectors of N images on disk, with labels, classes, groups and recipes.

    Opening a cache reads the listing and checks it against the digests in the manifest; vectors are read on demand. A
    cache can be passed to `frostbench.fit` and `frostbench.compare` directly, and `os.fspath` returns its folder.

    Args:
        path: cache folder written by `frostbench embed`.

    Raises:
        CacheError: the folder holds no cache, or the cache is unfinished, damaged or of another format.

    Attributes:
        path: cache folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._rows = read_table(self.path, stored=True)

    @property
    def ids(self) -> npt.NDArray[np.str_]:
        """Unique ids of the rows, str [N]."""
        return self._rows.ids

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Class of each row as an index into `class_names`, int64 [N]."""
        return self._rows.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """All classes of the listing, in the order of the labels."""
        return self._rows.class_names

    @property
    def groups(self) -> npt.NDArray[np.str_]:
        """Group of each row, str [N]; a row without a group forms one with its byte-identical copies."""
        return self._rows.groups

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """Recipe of each vector column, including columns of patch tokens."""
        return {**self._rows.tokens, **self._rows.recipes}

    def vectors(self, column: str | None = None) -> npt.NDArray[np.floating]:
        """Read a vector column into memory in its stored type: float16 or float32 [N, D], or [N, T, D] for tokens.

        Args:
            column: name of the column; may be omitted if the cache has exactly one column besides tokens.

        Raises:
            CacheError: the column does not exist, no column was named and the choice is not unique, or a shard is
                damaged.
        """
        if column is None:
            if len(self._rows.recipes) != 1:
                raise CacheError(
                    "a column must be named unless the cache has exactly one column besides tokens, but "
                    f"{self.path} has {sorted(self.recipes)}. Call vectors(NAME)."
                )
            (column,) = self._rows.recipes
        return self.table([column]).columns[column]

    def table(self, columns: Sequence[str] | None = None) -> FeatureTable:
        """Read vectors and the metadata of each row into memory.

        Args:
            columns: vector columns to read; None reads all except columns of tokens, which are large.

        Raises:
            CacheError: the cache lacks a column, has changed since it was opened, or is damaged.
        """
        return read_table(self.path, columns)

    def __len__(self) -> int:
        """Return the number of rows, N."""
        return len(self._rows.ids)

    def __fspath__(self) -> str:
        """Return the folder, so that a cache can be passed wherever a path is accepted."""
        return str(self.path)

    def __repr__(self) -> str:
        shapes = {name: list(column.shape[1:]) for name, column in self._rows.stored.items()}
        columns = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        counts = f"{things(len(self), 'row', 'rows')}, {things(len(self.class_names), 'class', 'classes')}"
        return f"<Cache {str(self.path)!r}: {counts}, {columns}>"
