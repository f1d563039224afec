"""Cutting rows into roles by time: what is newest is held out, as it is when a model is used."""

from collections.abc import Mapping

import numpy as np

from frostbench.embedcache.storage.files import CacheError


def cut_by_time(
    times: np.ndarray | None, groups: np.ndarray, shares: Mapping[str, float]
) -> tuple[np.ndarray, list[str]]:
    """Give the newest groups to the first role, the next ones to the second, and so on; the oldest train.

    A group is as new as its newest row, so no training row is newer than any held-out group. Groups of one moment stay
    together, so a share is met as nearly as the moments allow.

    Args:
        times: str [N] that sort as the times do, "" where unknown; None where no row has one.
        groups: int [N] from 0, kept whole.
        shares: by role, in the order of cutting, as shares of all rows; 0 cuts nothing.

    Returns:
        The roles [N], and sentences that say where the cuts are.

    Raises:
        CacheError: a row has no time, or there are too few moments for the shares.
    """
    unknown = len(groups) if times is None else int((times == "").sum())
    if times is None or unknown:
        raise CacheError(
            f"a split by time needs a time for each row, however: {unknown} of {len(groups)} rows have none. Embed "
            "from a manifest with a time column or with --time-regex, or use source grouped_stratified."
        )
    moments, moment_of = np.unique(times, return_inverse=True)
    newest = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    np.maximum.at(newest, groups, moment_of)
    steps, step_of = np.unique(newest[groups], return_inverse=True)
    rows_at = np.bincount(step_of)
    roles, notes, end = np.full(len(groups), "train", dtype="<U9"), [], len(steps)
    for role, share in shares.items():
        if share == 0:
            continue
        end, start = _first_step(rows_at, end, share * len(groups), role), end
        mine = (step_of >= end) & (step_of < start)
        roles[mine] = role
        notes.append(_told(role, share, float(mine.mean()), str(moments[steps[end]]), str(moments[steps[start - 1]])))
    return roles, [*notes, f"By time: train has everything up to {moments[steps[end - 1]]}."]


def _first_step(rows_at: np.ndarray, end: int, wanted: float, role: str) -> int:
    """Where a role begins that ends before a step, so that its rows are nearest to those that are wanted."""
    if end < 2:
        raise CacheError(
            f"a split by time needs a moment for each role and one to train, however: none is left for {role!r} among "
            f"{len(rows_at)}, counting a group as one moment. Give finer times or groups, or set this share to 0."
        )
    counts = rows_at[1:end][::-1].cumsum()
    return end - 1 - int(np.abs(counts - wanted).argmin())


def _told(role: str, share: float, found: float, first: str, last: str) -> str:
    note = f"By time: {role} has what is from {first} to {last}"
    return (
        f"{note}, {found:.0%} of all rows where {share:.0%} were asked for."
        if abs(found - share) > 0.02
        else f"{note}."
    )
