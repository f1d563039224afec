"""What the card Decide of the tab Compare asks for: figures under a decision, logits, and keeping a decision."""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from frostbench.app.reveals import count_looks
from frostbench.app.workbench.background import Background
from frostbench.app.workbench.compare.held_out import Best, best_run, held_out
from frostbench.app.workbench.requests import RequestError, store_of
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.figures import figures, most_changed
from frostbench.benchmarks.decisions.head_numbers import HeadNumbers, read_numbers
from frostbench.benchmarks.decisions.kept import keep, kept_decision
from frostbench.benchmarks.decisions.live import NEUTRAL, Answers, answers, why_not
from frostbench.benchmarks.decisions.stored_logits import LogitsMissingError, StoredLogits, read_logits
from frostbench.benchmarks.runs.store import StoreError, run_folder

MOST_CLASSES = 12
"""Largest number of classes that are shown as changed most."""
SAME = 1e-3
"""Largest difference to the run's own probabilities that rounding explains; cross-fitted ones differ by more."""
SECONDS = 900
"""Longest time that the logits of two runs may take."""
WANTED = "A decision needs a store and the run keys of a and b, as the page sends them."


def decide(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return the figures of the best run of each side, as it is and under a decision.

    `reveal` asks for test images, which must have been looked at in the comparison before.

    Raises:
        RequestError: the request has another form, names an unknown store, or asks for closed test images.
        ValueError: a run cannot be read, or the decision is out of bounds or does not fit a head.
    """
    store, sides = _sides(request, workspace)
    decision, role = _decision(request.get("decision", {})), "test" if request.get("reveal") is True else "select"
    if role == "test" and not count_looks(store, sides["a"].split):
        raise RequestError("Test images are closed. Look at them in the comparison first.")
    return {"role": role, "sides": {side: _figures(store, run, role, decision) for side, run in sides.items()}}


def _figures(store: Path, run: Best, role: str, decision: Decision) -> dict[str, Any]:
    key, kept = run.key, kept_decision(store, run.key)
    tree: dict[str, Any] = {
        "key": key,
        "seed": run.seed,
        "kept": None if kept is None else kept.model_dump(mode="json"),
        "export": str(store / key),
    }
    try:
        head, stored = read_numbers(run_folder(store, key) / "head"), read_logits(store, key)
        labels, confidence = held_out(store, key, role)
        _check_rows(stored, role, len(labels), key)
    except LogitsMissingError:
        return tree | {"state": "missing"}
    except ValueError as error:
        return tree | {"state": "impossible", "why": str(error)}
    before = _before(store, key, role, stored, head)
    refused = why_not(head, decision)
    after = before if refused or decision == NEUTRAL else answers(stored, role, labels, head, decision)
    return tree | {
        "state": "ready",
        "images": len(labels),
        "refused": refused,
        "fitted_here": bool(np.abs(before.confidence - confidence).max() > SAME),
        "why_no_prior": head.why_no_prior,
        "why_no_cutoffs": head.why_no_cutoffs,
        "before": figures(before, labels, head, decision.rule),
        "after": None if refused else figures(after, labels, head, decision.rule),
        "classes": most_changed(before, after, labels, head.class_names, MOST_CLASSES),
    }


@lru_cache(maxsize=8)
def _before(store: Path, key: str, role: str, stored: StoredLogits, head: HeadNumbers) -> Answers:
    return answers(stored, role, held_out(store, key, role).labels, head, NEUTRAL)


def _check_rows(stored: StoredLogits, role: str, rows: int, key: str) -> None:
    if role not in stored.rows:
        raise StoreError(
            f"Run {key} was cross-validated: its head was in the end trained on the validation images too, so there "
            "are no logits to choose decisions by. Choose a setting with a validation share."
        )
    if len(stored.rows[role]) != rows:
        raise StoreError(f"The logits of run {key} have other rows than its outcomes. Delete them and compute again.")


def compute(request: Any, workspace: Workspace, background: Background) -> dict[str, Any]:
    """Compute the logits of the best run of each side in a process of its own; the page asks until they are there.

    Raises:
        RequestError: the request has another form, or names an unknown store.
        ValueError: the page does not show the cache, or the logits could not be computed.
    """
    store, sides = _sides(request, workspace)
    keys = [key for key in dict.fromkeys(run.key for run in sides.values()) if _is_missing(store, key)]
    if not keys:
        return {"state": "done"}
    wanted = {"store": str(store), "keys": keys, "cache": str(workspace.cache(request.get("cache")))}
    text = json.dumps(wanted | {"plugins": [str(plugin) for plugin in workspace.plugins]})
    found = background.get(text, partial(_compute, text))
    return {"state": "computing" if found is None else "done"}


def _compute(text: str) -> bool:
    command = [sys.executable, "-m", "frostbench.app.logits_worker", text]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise StoreError(
            f"The logits took more than {SECONDS // 60} minutes, so they were given up. Try again."
        ) from error
    if ended.returncode != 0:
        raise StoreError((ended.stderr.strip().splitlines() or ["The process that computes logits was killed."])[-1])
    return True


def _is_missing(store: Path, key: str) -> bool:
    try:
        read_logits(store, key)
    except LogitsMissingError:
        return True
    return False


def keep_for_export(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Keep a decision for the best run of one `side`; a neutral one removes what was kept.

    Raises:
        RequestError: the request has another form, or names an unknown store or side.
        ValueError: the decision is out of bounds or does not fit the head.
    """
    store, sides = _sides(request, workspace)
    if request.get("side") not in sides:
        raise RequestError(f"A decision is kept for side a or b, got {request.get('side')!r}. {WANTED}")
    key, decision = sides[request["side"]].key, _decision(request.get("decision", {}))
    head: HeadNumbers = read_numbers(run_folder(store, key) / "head")
    if refused := why_not(head, decision):
        raise RequestError(refused)
    keep(store, key, decision)
    kept = kept_decision(store, key)
    return {"kept": None if kept is None else kept.model_dump(mode="json"), "export": str(store / key)}


def _sides(request: Any, workspace: Workspace) -> tuple[Path, dict[str, Best]]:
    """Return the store, and the best run of each side."""
    if not isinstance(request, Mapping):
        raise RequestError(WANTED)
    store, sides = store_of(request, workspace), dict[str, Best]()
    for side in ("a", "b"):
        keys = request.get(side)
        if not isinstance(keys, list) or not 1 <= len(keys) <= 100 or not all(isinstance(key, str) for key in keys):
            raise RequestError(WANTED)
        sides[side] = best_run(store, keys)
    return store, sides


def _decision(tree: Any) -> Decision:
    """Read a decision.

    Raises:
        RequestError: it is out of bounds; the message names each field.
    """
    try:
        return Decision.model_validate(tree)
    except ValidationError as error:
        own = [str(one["ctx"]["error"]) for one in error.errors() if one["type"] == "value_error"]
        words = [f"{'.'.join(map(str, one['loc'])) or 'the decision'}: {one['msg']}" for one in error.errors()]
        sentence = f"A decision must be within its bounds, but {'; '.join(words[:3])}."
        raise RequestError(own[0] if own else sentence) from error
