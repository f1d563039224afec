"""What the form would train: how many runs, which of them exist, how long the others take; and starting the jobs."""

import json
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from frostbench.app.command_lines import command_lines
from frostbench.app.finding import keys_of
from frostbench.app.forms import spec_of
from frostbench.app.sides import ROWS, changes, run_of
from frostbench.app.starting import submit_one
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.train.auto_commands import commands_with_auto
from frostbench.app.workbench.train.checking import Sent, read_sent, reasons_not_to_train
from frostbench.app.workbench.train.form import bench_for
from frostbench.app.workbench.train.options import DATA_KEYS
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.settings.parsing import AUTO, Tree, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.settings.plugins import check_allowed
from frostbench.embedcache.labels.corrections import labels_file
from frostbench.training.run import RunSpec

MOST_IMAGES = 100_000
"""Largest number of images for which the server estimates the time, because their vectors are read into memory."""
_one_at_a_time = threading.Lock()


def plan(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return, for each side, the number of runs and of those that exist in any store, and the equivalent commands.

    `found` is None if it is not known yet, with the reason in `unknown`. `problems` says why nothing can be trained.

    Raises:
        ValueError: the request has another form.
    """
    sent, sides = read_sent(request), _sides_of(request)
    if problems := reasons_not_to_train(sent, sides, workspace):
        return {"problems": problems, "sides": {}, "commands": ""}
    if problems := refused_plugins(sent, sides, workspace):
        return {"problems": problems, "sides": {}, "commands": ""}
    benches = {side: bench_of(sent, side, workspace) for side in sides}
    return {
        "problems": [],
        "sides": {side: _counts(bench, workspace) for side, bench in benches.items()},
        "commands": _commands(benches),
    }


def bench_of(sent: Sent, side: str, workspace: Workspace) -> Tree:
    """Return the one-row bench that trains a side; its preset is `auto` if that chooses the configuration.

    Raises:
        SettingsError: a value is not allowed.
    """
    values = sent.form.sides[side]
    labels = _labels(sent, workspace.cache(values["cache"]))
    if not (sent.is_auto and side == "A"):
        return bench_for(sent.form, run_of(values), side, workspace) | labels
    split = sent.form.split_changes()
    data = spec_of(RunSpec, [row for row in ROWS if row.key in DATA_KEYS], values)
    tree: Tree = {"name": side, "caches": [str(workspace.cache(values["cache"]))], "store": str(workspace.store)}
    tree |= {"preset": AUTO, "base": changes(RunSpec(), data), "seeds": list(range(sent.form.seeds))}
    return tree | ({"split": split} if split else {}) | labels


def _labels(sent: Sent, cache: Path) -> Tree:
    file = labels_file(cache)
    return {"labels": {"file": str(file)}} if sent.is_corrected and file.is_file() else {}


def _sides_of(request: Mapping[str, Any]) -> tuple[str, ...]:
    sides = request.get("sides")
    if sides not in (["A"], ["B"], ["A", "B"]):
        raise RequestError(f"The sides to train must be A, B or both, got {sides!r}. Reload the page.")
    return tuple(sides)


def refused_plugins(sent: Sent, sides: Sequence[str], workspace: Workspace) -> list[str]:
    """Return which plugins of some sides the page may not use."""
    found = []
    for side in sides:
        try:
            if not (sent.is_auto and side == "A"):
                check_allowed(run_of(sent.form.sides[side]), workspace.plugins)
        except ValueError as error:
            found.append(f"{side}: {error}")
    return found


def _counts(bench: Tree, workspace: Workspace) -> dict[str, Any]:
    """Return the number of a bench's runs, and of those found."""
    runs = len(bench["seeds"])
    if bench["preset"] == AUTO:
        return {"runs": runs, "found": None, "unknown": "auto has to choose the settings first"}
    keys = keys_of(bench, workspace.plugins)
    if not keys:
        return {"runs": runs, "found": None, "unknown": "the split of this data set is made when training starts"}
    return {"runs": runs, "found": runs - len(_missing(keys, workspace)), "unknown": ""}


def _missing(keys: Mapping[int, str], workspace: Workspace) -> list[int]:
    """Return the seeds whose run is in no store."""
    missing = set(missing_of(list(keys.values()), workspace))
    return [seed for seed, key in keys.items() if key in missing]


def missing_of(keys: Sequence[str], workspace: Workspace) -> list[str]:
    """Return the run keys that are in no store."""
    stores = (workspace.store, *workspace.other_stores())
    return [key for key in keys if not any(is_finished(store, key) for store in stores)]


def _commands(benches: Mapping[str, Tree]) -> str:
    if any(bench["preset"] == AUTO for bench in benches.values()):
        return commands_with_auto(benches)
    first, last = next(iter(benches.values())), list(benches.values())[-1]
    return command_lines(first, last)


def estimate(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return, for each side, the seconds that its missing runs take at most, or None with the reason.

    A few epochs on a few rows are timed, as `frostbench bench run --dry-run` does.

    Raises:
        ValueError: the request has another form, or a side cannot be trained.
    """
    sent, sides = read_sent(request), _sides_of(request)
    if problems := reasons_not_to_train(sent, sides, workspace) or refused_plugins(sent, sides, workspace):
        raise RequestError(" ".join(problems))
    return {side: _estimated(bench_of(sent, side, workspace), workspace) for side in sides}


def _estimated(bench: Tree, workspace: Workspace) -> dict[str, Any]:
    if bench["preset"] == AUTO:
        return {"seconds": None, "reason": "auto's choice is not estimated"}
    images = workspace.facts(bench["caches"][0]).images
    if images > MOST_IMAGES:
        reason = f"not estimated here for more than {MOST_IMAGES:,} images: frostbench bench run --dry-run does it"
        return {"seconds": None, "reason": reason}
    keys = keys_of(bench, workspace.plugins)
    missing = _missing(keys, workspace) if keys else bench["seeds"]
    if not missing:
        return {"seconds": 0.0, "reason": ""}
    timed = json.dumps(bench | {"seeds": list(missing)}, sort_keys=True)
    return {"seconds": seconds_of(timed, Path(bench["caches"][0]), workspace), "reason": ""}


def seconds_of(bench: str, cache: Path, workspace: Workspace) -> float:
    """Return the seconds that the runs of a bench (as JSON) take at most that are not in its store.

    Raises:
        ValueError: the bench could not run.
    """
    with _one_at_a_time:
        return _seconds(bench, workspace.device, (cache / "manifest.json").stat().st_mtime_ns)


@lru_cache(maxsize=100)
def _seconds(bench: str, device: str, _written: int) -> float:
    from frostbench.benchmarks.runs.dry_run import plan_bench

    return sum(found.seconds for found in plan_bench(parse(BenchSpec, json.loads(bench)), device))


def start(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Submit the jobs of some sides, or find their runs; return the job IDs by side.

    Raises:
        RequestError: a side cannot be trained.
        ValueError: the request has another form, or a job cannot be submitted.
        OSError: the store cannot be written.
    """
    sent, sides = read_sent(request), _sides_of(request)
    if problems := reasons_not_to_train(sent, sides, workspace) or refused_plugins(sent, sides, workspace):
        raise RequestError(" ".join(problems))
    benches = {side: bench_of(sent, side, workspace) for side in sides}
    return {"jobs": {side: submit_one(side, bench, workspace) for side, bench in benches.items()}}
