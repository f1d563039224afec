"""Reading and writing the files in the folder of a job.

    STORE/jobs/ID/request.json    what to train, written at submission
    STORE/jobs/ID/mark            proof that this user submitted the job on this machine (`frostbench.app.jobs.mark`)
    STORE/jobs/ID/starter.json    the process that started the worker
    STORE/jobs/ID/process.json    the worker process
    STORE/jobs/ID/status.json     state and progress, written by the worker or for a job without one
    STORE/jobs/ID/epochs.jsonl    one line per epoch
    STORE/jobs/ID/log.txt         output of the worker
    STORE/jobs/ID/end.json        reserved space for the final status in case the disk is full
    STORE/jobs/ID/cancel          request to stop the job, with its time

An ID (`frostbench.app.jobs.ids`) looks like 20261128-034512-123456-a1b2.
"""

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from frostbench.app.depth import DEEPEST, is_too_deep
from frostbench.app.jobs.ids import is_id
from frostbench.app.jobs.records import JobError, Process, Request, Status, StopRequest

T = TypeVar("T", Request, Status, Process, StopRequest)

LARGEST = 2**53
"""Upper bound for the numbers in a job's files; JSON numbers beyond it are not exact."""
DEEPEST_FILE = 2 * DEEPEST
"""Maximum nesting of a file, in which form values are nested inside another tree."""
OPTIONAL = ("holds", "folder", "keys", "chosen", "rounds", "share")
"""Fields that files of earlier versions may lack."""


def folder_of(store: Path, job_id: str) -> Path:
    """Return the folder of a job.

    Raises:
        JobError: the ID is invalid, or the store has no such job.
    """
    if not is_id(job_id):
        raise JobError(
            f"A job ID must look like 20261128-034512-123456-a1b2, got {job_id[:100]!r}. Choose a job from the list."
        )
    folder = Path(store) / "jobs" / job_id
    if not folder.is_dir():
        raise JobError(f"{store} has no job {job_id}. Its folder may have been removed.")
    return folder


def is_started(folder: Path) -> bool:
    """Whether a worker was started for a job."""
    return (folder / "starter.json").exists() or (folder / "process.json").exists()


def is_stop_requested(folder: Path) -> bool:
    """Whether a request to stop a job was made."""
    return (folder / "cancel").exists()


def read_stop_request(folder: Path) -> StopRequest | None:
    """Return the request to stop a job, or None if there is none or its file is damaged."""
    try:
        return _read(folder / "cancel", StopRequest)
    except JobError:
        return None


def write_json(path: Path, content: Request | Status | Process | StopRequest) -> None:
    """Write a file atomically: readers see the old or the new content, never a part."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    partial.write_text(json.dumps(asdict(content)), encoding="ascii")
    partial.replace(path)


def read_end(folder: Path) -> Status | None:
    """Return the final status of a job that could not write its status.json, or None if there is none."""
    path = folder / "end.json"
    try:
        return _read(path, Status) if path.read_bytes().strip() else None
    except (FileNotFoundError, JobError):
        return None


def read_request(folder: Path) -> Request:
    """Return the request of a job.

    Raises:
        JobError: request.json is missing or damaged.
    """
    request = _read(folder / "request.json", Request)
    if request is None:
        raise JobError(f"Job {folder.name} has no request.json. Submit the job again.")
    return request


def parse_request(content: bytes) -> Request:
    """Parse the content of a request.json. Raises JobError if it is damaged."""
    return _parse("request.json", content, Request)


def read_status(folder: Path) -> Status | None:
    """Return the last status written for a job, or None. Raises JobError if its file is damaged."""
    return _read(folder / "status.json", Status)


def read_process(folder: Path) -> Process | None:
    """Return the worker process of a job, or None if none was started. Raises JobError if its file is damaged."""
    return _read(folder / "process.json", Process)


def read_starter(folder: Path) -> Process | None:
    """Return the process that started the worker of a job, or None. Raises JobError if its file is damaged."""
    return _read(folder / "starter.json", Process)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value has the type of a field; a store may come from anywhere, and its values are displayed."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in inside
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inside)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, inside[1]) for item in value.values())
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, inside[0]) for item in value)
    if hint in (int, float):
        is_number = isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
        return is_number and not abs(value) > LARGEST
    return isinstance(value, hint)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return _parse(path.name, path.read_bytes(), kind)
    except FileNotFoundError:
        return None


def _parse(name: str, content: bytes, kind: type[T]) -> T:
    try:
        tree = json.loads(content)
        if is_too_deep(tree, DEEPEST_FILE):
            raise ValueError(f"values are nested more than {DEEPEST_FILE} levels deep")
        present = [f for f in fields(kind) if f.name in tree or f.name not in OPTIONAL]
        wrong = [f.name for f in present if not _fits(tree[f.name], f.type)]
        if wrong:
            raise ValueError(f"wrong type of {', '.join(wrong)}")
        return kind(**{f.name: tree[f.name] for f in present})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JobError(f"{name} of the job is damaged ({error}).") from error
