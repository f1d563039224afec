"""What the tab Data asks for."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.app.workbench.background import Background
from frostbench.app.workbench.data.checks import as_tree, make_checks, roles_of
from frostbench.app.workbench.data.labels import Labels, correct, current_labels
from frostbench.app.workbench.data.unlabelled import label_next
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.tables import whole_table_of, written
from frostbench.app.workspace import Workspace
from frostbench.embedcache.checking.verify import cache_info
from frostbench.embedcache.index import load_or_make_map, neighbours
from frostbench.embedcache.labels.corrections import labels_file
from frostbench.embedcache.splits.making import ROLES

MOST_NEAR = 24
COMPUTING = {"state": "computing"}


def answers(workspace: Workspace, background: Background) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that answer the tab's requests, by name."""
    return {
        "caches": lambda _: caches(workspace),
        "data": lambda request: overview(_folder(request, workspace)),
        "checks": lambda request: checks(_folder(request, workspace), background),
        "map": lambda request: positions(_folder(request, workspace), background),
        "next": lambda request: to_label(_folder(request, workspace), background),
        "near": lambda request: near(_folder(request, workspace), request.get("id"), request.get("k", 8)),
        "correct": lambda request: labels_as_tree(
            correct(_folder(request, workspace), request.get("changes"), request.get("who", ""))
        ),
    }


def _folder(request: Any, workspace: Workspace) -> Path:
    if not isinstance(request, Mapping) or not isinstance(request.get("cache"), str):
        raise RequestError("A request about a data set names its cache, as the page does.")
    return workspace.cache(request["cache"])


def caches(workspace: Workspace) -> dict[str, Any]:
    """Return name, images and classes of every cache of the page, and what could not be read."""
    found, problems = [], []
    for name in workspace.cache_names():
        try:
            facts = workspace.facts(name)
            found.append({"cache": name, "images": facts.images, "classes": len(facts.classes)})
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {error}")
    return {"caches": found, "problems": problems, "root": str(workspace.root.resolve())}


def overview(folder: Path) -> dict[str, Any]:
    """Return the images of a cache, by column: ids, labels, and roles in the default split.

    Raises:
        ValueError: the cache or its corrections cannot be read, or it cannot be split.
    """
    info, labels = _info(folder, written(folder)), current_labels(folder)
    roles, split_problem = np.full(len(labels.now), "", dtype="<U9"), ""
    try:
        roles[labels.table.labels >= 0] = roles_of(folder)
    except ValueError as error:
        split_problem = str(error)
    number = {role: i for i, role in enumerate(ROLES)}
    return {
        "cache": str(folder),
        "columns": {name: f"{column['model']}, {column['dim']:,} numbers" for name, column in info["columns"].items()},
        "unreadable": info["n_bad"],
        "reasons": info["quarantine"],
        "groups": info["groups"],
        "group": labels.table.groups.tolist() if labels.table.has_groups else None,
        "ids": labels.table.ids.tolist(),
        "roles": [number.get(role, -1) for role in roles.tolist()],
        "role_names": list(ROLES),
        "split_problem": split_problem,
        **labels_as_tree(labels),
    }


@lru_cache(maxsize=4)
def _info(folder: Path, _written: int) -> dict[str, Any]:
    return cache_info(folder)


def labels_as_tree(labels: Labels) -> dict[str, Any]:
    """Return the labels as they are now, those of the cache where they differ, and which ones a person has checked."""
    place = {image: row for row, image in enumerate(labels.table.ids.tolist())}
    changed = np.flatnonzero(labels.now != labels.first)
    return {
        "class_names": list(labels.class_names),
        "labels": labels.now.tolist(),
        "first": dict(zip(changed.tolist(), labels.first[changed].tolist(), strict=True)),
        "checked": sorted(place[image] for image in labels.checked if image in place),
        "file": str(labels.file),
        "left_out": labels.changes.left_out,
    }


def checks(folder: Path, background: Background) -> dict[str, Any]:
    """Return labels to check and near-copies across the split, or that they are being computed."""
    found = background.get(_checks_key(folder), lambda: make_checks(folder))
    if found is None:
        return COMPUTING
    labels = current_labels(folder)
    tree = background.get(_ranking_key(folder), lambda: as_tree(found, labels))
    return COMPUTING if tree is None else {"state": "ready"} | tree


def to_label(folder: Path, background: Background) -> dict[str, Any]:
    """Return the images without a label to label next, or that they are being computed."""
    labels = current_labels(folder)
    tree = background.get(("next", *_ranking_key(folder)), lambda: label_next(labels))
    return COMPUTING if tree is None else {"state": "ready"} | tree


def known_checks(folder: Path, background: Background) -> dict[str, Any] | None:
    """Return what `checks` has found under the present labels, or None if it was not asked yet or is computing."""
    return background.known(_ranking_key(folder))


def _checks_key(folder: Path) -> tuple[Any, ...]:
    return ("checks", folder, written(folder))


def _ranking_key(folder: Path) -> tuple[Any, ...]:
    file = labels_file(folder)
    return ("ranking", folder, written(folder), file.stat().st_mtime_ns if file.is_file() else 0)


def positions(folder: Path, background: Background) -> dict[str, Any] | bytes:
    """Return the map of a cache by PCA, float32 [N, 2] little-endian, or that it is being computed."""
    found = background.get(("map", folder, written(folder)), lambda: _positions(folder))
    return COMPUTING if found is None else bytes(found)


def _positions(folder: Path) -> bytes:
    points = load_or_make_map(folder, whole_table_of(folder))
    return points[["x", "y"]].to_numpy().astype("<f4").tobytes()


def near(folder: Path, image: Any, k: Any) -> dict[str, Any]:
    """Return the row numbers and cosines of the images nearest to one.

    Raises:
        RequestError: there is no such image, or k is not from 1 to `MOST_NEAR`.
    """
    table = whole_table_of(folder)
    if not isinstance(image, str) or not isinstance(k, int) or not 1 <= k <= MOST_NEAR:
        raise RequestError(f"Nearest images need an id and a number of 1 to {MOST_NEAR}, as the page sends them.")
    found = neighbours(table, min(k, len(table.ids) - 1), ids=[image]).rows
    place = {one: row for row, one in enumerate(table.ids.tolist())}
    return {"rows": [place[one] for one in found["neighbour"]], "cosine": found["cosine"].round(3).tolist()}
