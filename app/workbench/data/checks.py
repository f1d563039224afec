"""Labels to check, and near-copies across the split."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.app.workbench.data.labels import Labels
from frostbench.app.workbench.tables import table_of
from frostbench.embedcache.index import NEAR, Leaks, SuspectRanker, leaks
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError

MOST_CONFUSIONS = 12


@dataclass(frozen=True, eq=False)
class Checks:
    """What is known about a cache before any training.

    Attributes:
        ranker: scores labels; None if they cannot be scored.
        reason: why not, or "".
        copies: held-out images with a near-copy in training; None if the images cannot be split.
    """

    ranker: SuspectRanker | None
    reason: str
    copies: Leaks | None


def make_checks(folder: Path) -> Checks:
    """Search the neighbours of all images of a cache; this takes a minute for 50,000 images.

    Raises:
        CacheError: the cache cannot be read.
    """
    table = table_of(folder)
    ranker, reason = None, ""
    try:
        ranker = SuspectRanker(table)
    except CacheError as error:
        reason = str(error)
    try:
        roles = roles_of(folder)
    except CacheError:
        return Checks(ranker, reason, None)
    return Checks(ranker, reason, leaks(table, roles, NEAR))


def roles_of(folder: Path) -> npt.NDArray[np.str_]:
    """Return the role of each image in the default split of a cache, str [N]."""
    return load_or_make_split(folder, table_of(folder), SplitSpec()).roles


def as_tree(checks: Checks, labels: Labels) -> dict[str, Any]:
    """Return the checks under the labels as they are now, as JSON values; images are their row numbers."""
    place = {image: row for row, image in enumerate(labels.table.ids.tolist())}
    tree: dict[str, Any] = {
        "reason": checks.reason,
        "suspects": {"rows": [], "suggested": [], "confidence": []},
        "confusions": [],
        "copies": {"rows": [], "train": [], "cosine": []},
        "roles": [],
        "notes": [],
    }
    if checks.copies is not None:
        tree |= _copies(checks.copies, place)
    return tree if checks.ranker is None else tree | _suspects(checks.ranker, labels, place)


def _copies(found: Leaks, place: dict[str, int]) -> dict[str, Any]:
    return {
        "copies": {
            "rows": [place[one] for one in found.rows["id"]],
            "train": [place[one] for one in found.rows["train_id"]],
            "cosine": found.rows["cosine"].round(4).tolist(),
        },
        "roles": found.summary.to_dict("records"),
    }


def _suspects(ranker: SuspectRanker, labels: Labels, place: dict[str, int]) -> dict[str, Any]:
    found = ranker.rank(labels.now[labels.table.labels >= 0], labels.class_names)
    number = {name: i for i, name in enumerate(labels.class_names)}
    wrong = found.rows[found.rows["suspect"]]
    return {
        "suspects": {
            "rows": [place[one] for one in wrong["id"]],
            "suggested": [number[name] for name in wrong["suggested"]],
            "confidence": wrong["self_confidence"].round(4).tolist(),
        },
        "confusions": [
            {"label": number[a], "suggested": number[b], "rows": int(n)}
            for a, b, n in found.confusions.head(MOST_CONFUSIONS).itertuples(index=False)
        ],
        "notes": list(found.warnings),
    }
