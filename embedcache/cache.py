"""Cache: a finished cache of vectors, opened by its folder."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable, read_table


class Cache:
    """A finished cache: the vectors of N images on disk, with labels, classes, groups and recipes.

    Opening reads the listing and compares it with the digests in the manifest; vectors are read when they are asked
    for. A cache goes into `frostbench.fit` and `frostbench.compare` as it is, and `os.fspath` gives its folder.

    Args:
        path: folder of the cache, as `frostbench embed` wrote it.

    Raises:
        CacheError: the folder holds no cache, or one that is unfinished, of another format or damaged.

    Attributes:
        path: folder of the cache.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._rows = read_table(self.path, stored=True)

    @property
    def ids(self) -> npt.NDArray[np.str_]:
        """Names of the rows, unique, str [N]."""
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
        """Group of each row, str [N]; rows without one share a group with their byte-identical copies."""
        return self._rows.groups

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """How each column of vectors was made, columns of patch tokens included."""
        return {**self._rows.tokens, **self._rows.recipes}

    def vectors(self, column: str | None = None) -> npt.NDArray[np.floating]:
        """Read a column of vectors into memory, as it is stored: float16 or float32 [N, D], [N, T, D] for tokens.

        Args:
            column: its name; may be left out where the cache has one column beside its tokens.

        Raises:
            CacheError: there is no such column, several or columns of tokens alone could be meant, or a shard is
                damaged.
        """
        if column is None:
            if len(self._rows.recipes) != 1:
                raise CacheError(
                    "a column is read unnamed where it is the only one of vectors, however: "
                    f"{self.path} has {sorted(self.recipes)} and none was named. Call vectors(NAME)."
                )
            (column,) = self._rows.recipes
        return self.table([column]).columns[column]

    def table(self, columns: Sequence[str] | None = None) -> FeatureTable:
        """Read vectors and all that belongs to each row into memory.

        Args:
            columns: the vector columns to read; None reads all but columns of tokens, which are large.

        Raises:
            CacheError: the cache lacks a column, was changed since it was opened, or is damaged.
        """
        return read_table(self.path, columns)

    def __len__(self) -> int:
        """N, the number of rows."""
        return len(self._rows.ids)

    def __fspath__(self) -> str:
        """The folder, so that whatever opens a path opens a cache."""
        return str(self.path)

    def __repr__(self) -> str:
        shapes = {name: list(column.shape[1:]) for name, column in self._rows.stored.items()}
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        return f"<Cache {str(self.path)!r}: {len(self)} rows, {len(self.class_names)} classes, {told}>"
