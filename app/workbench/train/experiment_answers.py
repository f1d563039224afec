"""What an experiment would train, how long that takes at most, and starting it; going on with one that has ended."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frostbench.app import jobs
from frostbench.app.finding import collect, keys_by_row, numbered
from frostbench.app.jobs.files import folder_of
from frostbench.app.jobs.mark import read_own
from frostbench.app.jobs.records import EXPERIMENTS, UNFINISHED, JobError
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workbench.train.checking import read_sent
from frostbench.app.workbench.train.experiments import Experiment, experiment_of
from frostbench.app.workbench.train.job_list import id_in
from frostbench.app.workbench.train.launching import MOST_IMAGES, missing_of, seconds_of
from frostbench.app.workbench.train.search import problems_of, read_search
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.runs.halving import Round, next_round
from frostbench.benchmarks.runs.store import is_finished
from frostbench.benchmarks.settings.parsing import Tree

NO_SPLIT = "the split of this data set is made when training starts"


def plan(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return what an experiment would train: settings, runs, those that exist in any store, rounds and commands.

    `found` is None if it is not known yet, with the reason in `unknown`. `problems` says why nothing can be trained.

    Args:
        request: form of both sides, `kind` and, for a search, `search`.
        workspace: workspace of the page.

    Raises:
        ValueError: the request has another form.
    """
    made = _read(request, workspace)
    if isinstance(made, list):
        nothing: dict[str, Any] = {"rows": [], "skipped": [], "rounds": [], "commands": ""}
        return nothing | {"problems": made, "fields": _fields(request, workspace)}
    rounds, known = _rounds(made, workspace)
    seeds = len(made.spec.seeds)
    # Which settings reach a round is known after the one before it, so runs are counted in the rounds up to there.
    counted = [part.bench.model_dump(mode="json") for part in rounds[:known]] if rounds else [made.bench]
    found = [
        {name: seeds - len(missing_of(keys, workspace)) for name, keys in keys_by_row(bench, workspace.plugins).items()}
        for bench in counted
    ]
    return {
        "problems": [],
        "fields": {},
        "rows": [{"name": title, "found": found[0].get(name)} for name, title in made.names.items()],
        "skipped": [{"name": name, "reason": reason} for name, reason in made.skipped],
        "rounds": [{"settings": part.settings, "epochs": part.epochs} for part in rounds],
        "seeds": seeds,
        "runs": made.runs,
        "found": sum(sum(rows.values()) for rows in found) if found[0] else None,
        "unknown": "" if found[0] else NO_SPLIT,
        "commands": made.commands,
    }


def _fields(request: Any, workspace: Workspace) -> dict[str, str]:
    """Return the errors of a search's own fields by key."""
    if request["kind"] != "search":
        return {}
    values = read_sent(request).form.sides["B"]
    return problems_of(read_search(request.get("search")), values, workspace)


def _rounds(made: Experiment, workspace: Workspace) -> tuple[tuple[Round, ...], int]:
    """Return the rounds of successive halving, and how many of them have settings that are known.

    The settings of a round are known once all runs of the one before it are in the page's store.
    """
    known = list(made.rounds[:1])
    while known and not known[-1].is_last:
        keys = numbered(keys_by_row(known[-1].bench.model_dump(mode="json"), workspace.plugins))
        if not keys or not all(is_finished(workspace.store, key) for key in keys.values()):
            break
        known.append(next_round(made.spec, known[-1]))
    return (*known, *made.rounds[len(known) :]), len(known)


def _read(request: Any, workspace: Workspace) -> Experiment | list[str]:
    return experiment_of(request.get("kind"), read_sent(request), request, workspace)


def _made(request: Any, workspace: Workspace) -> Experiment:
    """Return the experiment of a request. Raises RequestError if it cannot be trained."""
    made = _read(request, workspace)
    if isinstance(made, list):
        raise RequestError(" ".join(made))
    return made


def estimate(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Return the seconds that the missing runs take at most, or None with the reason.

    Raises:
        ValueError: the request has another form, or the experiment cannot be trained.
    """
    made = _made(request, workspace)
    if workspace.facts(made.bench["caches"][0]).images > MOST_IMAGES:
        reason = f"not estimated here for more than {MOST_IMAGES:,} images: frostbench bench run --dry-run does it"
        return {"seconds": None, "reason": reason}
    benches = [part.bench.model_dump(mode="json") for part in _rounds(made, workspace)[0]] or [made.bench]
    return {"seconds": sum(_estimated(bench, workspace) for bench in benches), "reason": ""}


def _estimated(bench: Tree, workspace: Workspace) -> float:
    """Return the seconds of a bench's missing runs; those of other stores are linked, and not trained."""
    keys = numbered(keys_by_row(bench, workspace.plugins))
    own = [key for key in keys.values() if not is_finished(workspace.store, key)]
    missing = missing_of(list(keys.values()), workspace) if keys else None
    if missing == []:
        return 0.0
    share = 1.0 if missing is None else len(missing) / len(own)
    return share * seconds_of(json.dumps(bench, sort_keys=True), Path(bench["caches"][0]), workspace)


def start(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Submit the job of an experiment, or find its runs; return the job ID by kind.

    Raises:
        RequestError: the experiment cannot be trained.
        ValueError: the request has another form, or the job cannot be submitted.
        OSError: the store cannot be written.
    """
    made = _made(request, workspace)
    return {"jobs": {made.kind: _submit(made.kind, made.bench, len(made.rounds), workspace)}}


def resume(request: Any, workspace: Workspace) -> dict[str, Any]:
    """Submit an experiment again that was cancelled, has failed or was lost; return the job ID by kind.

    Finished runs are found in the store, and long stacks go on from their checkpoint.

    Raises:
        JobError: the job is not one that this user submitted here, or cannot be submitted again.
        RequestError: the job is no experiment that has ended.
        OSError: the store cannot be written.
    """
    job = id_in(request)
    wanted, state = read_own(folder_of(workspace.store, job)), jobs.read(workspace.store, job).state
    if wanted is None:
        raise JobError("Only your own experiments are gone on with, and this one was submitted elsewhere or changed.")
    if wanted.side not in EXPERIMENTS or state in (*UNFINISHED, "done"):
        raise RequestError("Only an experiment that ended before all its runs can be gone on with. Reload the page.")
    if Path(wanted.folder) != Path.cwd():
        raise JobError(f"The experiment was started in {wanted.folder}. Start the page there to go on with it.")
    return {"jobs": {wanted.side: _submit(wanted.side, wanted.bench, wanted.rounds, workspace)}}


def _submit(kind: str, bench: Mapping[str, Any], rounds: int, workspace: Workspace) -> str:
    keys = {} if rounds else numbered(keys_by_row(bench, workspace.plugins))
    is_complete, stores = collect(keys, workspace)
    if is_complete and kind == "changes":
        return jobs.submit_found(workspace.store, kind, dict(bench), keys, stores=list(map(str, stores)))
    limits: dict[str, Any] = {"slots": workspace.slots, "device": workspace.device, "plugins": workspace.plugins}
    return jobs.submit(workspace.store, kind, dict(bench), keys=keys, rounds=rounds, **limits)
