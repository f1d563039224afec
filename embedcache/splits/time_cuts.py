"""Splitting rows by time: the newest are held out, because a model in use meets newer images."""

from collections.abc import Mapping

import numpy as np

from frostbench.embedcache.storage.files import CacheError


def cut_by_time(
    times: np.ndarray | None, groups: np.ndarray, shares: Mapping[str, float]
) -> tuple[np.ndarray, list[str]]:
    """Assign the newest groups to the first role, the next ones to the second, and so on; the oldest train.

    A group is as new as its newest row, so no training row is newer than a held-out group. Groups with the same time
    stay together, so shares are met as closely as the times allow.

    Args:
        times: str [N] that sort chronologically, "" if unknown; None if no row has one.
        groups: int [N] from 0; groups are not divided.
        shares: share of all rows by role, in the order in which they are taken; 0 takes nothing.

    Returns:
        The roles [N], and sentences that state the boundaries.

    Raises:
        CacheError: a row has no time, or there are too few distinct times for the shares.
    """
    unknown = len(groups) if times is None else int((times == "").sum())
    if times is None or unknown:
        raise CacheError(
            f"A split by time needs a time for each row, but {unknown} of {len(groups)} rows "
            f"{'has' if unknown == 1 else 'have'} none. Embed from a manifest with a time column or with --time-regex, "
            "or use source=grouped_stratified."
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
    return roles, [*notes, f"By time: training rows are up to {moments[steps[end - 1]]}."]


def _first_step(rows_at: np.ndarray, end: int, wanted: float, role: str) -> int:
    """Return the first time step of the role whose last step is `end` - 1, with a row count closest to `wanted`."""
    if end < 2:
        raise CacheError(
            f"A split by time needs a distinct time for each role and for training, but none of {len(rows_at)} is left "
            f"for {role!r} (a group counts once). Give finer times or groups, or set this share to 0."
        )
    counts = rows_at[1:end][::-1].cumsum()
    return end - 1 - int(np.abs(counts - wanted).argmin())


def _told(role: str, share: float, found: float, first: str, last: str) -> str:
    note = f"By time: {role} rows are from {first} to {last}"
    return (
        f"{note}, {found:.0%} of all rows instead of the requested {share:.0%}."
        if abs(found - share) > 0.02
        else f"{note}."
    )
