"""Tables of the FeDLaS paper and mean ranks computed from them."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
from scipy.stats import rankdata

HIGHER_IS_BETTER = ("Acc",)


def tables() -> dict[str, Any]:
    """Return the tables: `table1` and `table2` with columns, cell and rows, `table3_auroc` and `table4`."""
    data: dict[str, Any] = json.loads(
        (resources.files("frostbench.benchmarks.reference") / "fedlas_tables.json").read_text("utf-8")
    )
    return data


def mean_ranks(table: Mapping[str, Any], metric: str) -> dict[str, float]:
    """Return each row's mean rank by a metric over the columns of a table; 1 is best, ties share the better rank.

    >>> table = {"cell": ["ECE"], "rows": {"a": [[3.0], [1.0]], "b": [[3.0], [2.0]], "c": [[4.0], [0.5]]}}
    >>> mean_ranks(table, "ECE")
    {'a': 1.5, 'b': 2.0, 'c': 2.0}
    """
    values = cells(table, metric)
    ranks = rankdata(-values if metric in HIGHER_IS_BETTER else values, method="min", axis=0)
    return dict(zip(table["rows"], ranks.mean(1).tolist(), strict=True))


def column_means(table: Mapping[str, Any], metric: str) -> dict[str, float]:
    """Return each row's mean of a metric over the columns of a table."""
    return dict(zip(table["rows"], cells(table, metric).mean(1).tolist(), strict=True))


def cells(table: Mapping[str, Any], metric: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """Return the values [rows, columns] of one metric of a table."""
    index = table["cell"].index(metric)
    return np.array([[cell[index] for cell in row] for row in table["rows"].values()], dtype=np.float64)
