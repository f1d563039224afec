"""Groups of duplicates and near-duplicates, with the facts to consider before deleting any."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from frostbench.embedcache.counting import things
from frostbench.embedcache.index.groups import NEAR, content_pairs, distinct, joined
from frostbench.embedcache.index.pairs import MARGIN, Pairs
from frostbench.embedcache.index.rows import Numbers, UnitRows, column_of
from frostbench.embedcache.index.search import Method
from frostbench.embedcache.table import FeatureTable

MOST_MEMBERS = 2000
"""Maximum number of evenly spaced members that are compared to find the width of a group."""
ROWS_AT_A_TIME = 8192


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Groups of at least two rows, the largest first.

    Attributes:
        threshold: minimum cosine of a near pair.
        column: vector column that was compared.
        group: int64 [N], group of each row; -1 if it has none.
        groups: one line per group: group, rows, contents (distinct files), kind (identical, near or both), widest (the
            smallest cosine between two members, among up to 2000 evenly spaced ones), chain (whether it is wider than
            twice the threshold's angle), classes, first (id of its first row).
        rows: one line per row of a group: group, id, label, copy (number of its content within the group).
        pairs: number of near pairs of distinct contents.
        near_below: number of pairs less than MARGIN below the threshold.
        near_above: number of pairs less than MARGIN above it.
        zero: number of rows with a zero vector, which have no near pairs.
        method: exact or ivf.
        recall: recall of the search; 1 if all pairs were compared.
        warnings: sentences for the user.
    """

    threshold: float
    column: str
    group: Numbers
    groups: pd.DataFrame
    rows: pd.DataFrame
    pairs: int
    near_below: int
    near_above: int
    zero: int
    method: str
    recall: float
    warnings: tuple[str, ...]


def duplicates(
    table: FeatureTable, threshold: float = NEAR, *, column: str | None = None, method: Method = "auto"
) -> Duplicates:
    """Find groups of byte-identical images and of images whose cosine is at least the threshold.

    Groups are connected components of pairs, so members may be farther apart than the threshold. A group in which no
    member can be near all others is called a chain and causes a warning.

    Args:
        table: in memory or on disk.
        threshold: above 0, at most 1.
        column: vector column; default: the first by name.
        method: exact, ivf, or auto (by the number of rows).

    Raises:
        ValueError: the threshold is out of bounds or too low, or there is no such column.
    """
    name, vectors = column_of(table, column)
    first, number = distinct(table.content)
    pairs = content_pairs(table, threshold, name, method)
    group = _numbered(joined(len(first), pairs.first, pairs.second)[number])
    rows = _rows(table, group, number)
    groups = _groups(rows, _widest(vectors, group, first), threshold)
    zero = sum(int((~x.any(axis=1)).sum()) for _, x in vectors.blocks(ROWS_AT_A_TIME))
    return Duplicates(
        threshold,
        name,
        group,
        groups,
        rows,
        len(pairs.first),
        pairs.below,
        pairs.above,
        zero,
        pairs.method,
        pairs.recall,
        tuple(_warnings(groups, pairs, zero, threshold)),
    )


def _numbered(component: Numbers) -> Numbers:
    """Number groups of at least two rows from 0, by size, then by first row; single rows get -1."""
    counts = np.bincount(component)
    order = np.argsort(-counts, kind="stable")
    place = np.full(len(counts), -1, dtype=np.int64)
    real = order[counts[order] > 1]
    place[real] = np.arange(len(real))
    return place[component]


def _rows(table: FeatureTable, group: Numbers, number: Numbers) -> pd.DataFrame:
    inside = np.flatnonzero(group >= 0)
    inside = inside[np.argsort(group[inside], kind="stable")]
    frame = pd.DataFrame(
        {
            "group": group[inside],
            "id": table.ids[inside],
            "label": np.array(table.class_names, dtype=str)[table.labels[inside]],
            "copy": number[inside],
        }
    )
    frame["copy"] = frame.groupby("group")["copy"].transform(lambda each: pd.factorize(each)[0])
    return frame


def _groups(rows: pd.DataFrame, widest: dict[int, float], threshold: float) -> pd.DataFrame:
    found = rows.groupby("group").agg(rows=("id", "size"), contents=("copy", "nunique"), first=("id", "first"))
    found["kind"] = np.select(
        [found["contents"] == 1, found["contents"] == found["rows"]], ["identical", "near"], default="both"
    )
    found["widest"] = [widest.get(int(group), 1.0) for group in found.index]
    reach = math.cos(min(2 * math.acos(threshold), math.pi))
    found["chain"] = found["widest"] < reach - 1e-6
    found["classes"] = rows.groupby("group")["label"].agg(lambda each: ", ".join(sorted(set(each))))
    return found.reset_index()


def _widest(vectors: UnitRows, group: Numbers, first: Numbers) -> dict[int, float]:
    """Compute the smallest cosine between two members of each group, using one row per content."""
    members = first[group[first] >= 0]
    members = members[np.argsort(group[members], kind="stable")]
    parts = np.split(members, np.flatnonzero(np.diff(group[members])) + 1) if len(members) else []
    widest: dict[int, float] = {}
    several = [_spaced(part) for part in parts if len(part) > 1]
    while several:
        batch: list[Numbers] = []
        held = 0
        while several and (not batch or held + len(several[-1]) <= ROWS_AT_A_TIME):
            batch.append(several.pop())
            held += len(batch[-1])
        rows = np.sort(np.concatenate(batch))
        x = vectors.only(rows).block(0, len(rows))
        for part in batch:
            own = x[np.searchsorted(rows, part)]
            widest[int(group[part[0]])] = float((own @ own.T).min())
    return widest


def _spaced(part: Numbers) -> Numbers:
    if len(part) <= MOST_MEMBERS:
        return part
    return part[np.unique(np.linspace(0, len(part) - 1, MOST_MEMBERS).astype(np.int64))]


def _warnings(groups: pd.DataFrame, pairs: Pairs, zero: int, threshold: float) -> list[str]:
    notes = []
    chains = groups[groups["chain"]] if len(groups) else groups
    if len(chains):
        number, size, widest = chains.sort_values("widest")[["group", "rows", "widest"]].to_numpy()[0].tolist()
        notes.append(
            f"{things(len(chains), 'group is a chain', 'groups are chains')}, with members farther apart than twice "
            f"the threshold's angle; the widest is group {number:.0f} with {size:.0f} rows, down to cosine "
            f"{widest:.3f}. Inspect such groups, or raise the threshold."
        )
    close = pairs.below + pairs.above
    if close > max(10, len(pairs.first) // 2):
        notes.append(
            f"{things(pairs.above, 'pair is', 'pairs are')} less than {MARGIN} above the threshold {threshold}, and "
            f"{pairs.below} less than {MARGIN} below it, so a slightly different threshold gives other groups. Inspect "
            "some of these pairs."
        )
    if zero:
        rows = things(zero, "row has", "rows have")
        notes.append(f"{rows} a zero vector, for which only byte-identical copies are found.")
    if pairs.method != "exact":
        notes.append(f"The search was approximate: it finds {pairs.recall:.1%} of the nearest neighbours of a sample.")
    return notes
