"""What the server and the process that embeds tell each other, in files of STORE/embedding.

    request.json    what is embedded, written by the server
    status.json     how far the process is
    process.json    the process, so that any server can tell whether it is alive
    stop            exists once the embedding shall stop
    log.txt         what the process printed

A store has one embedding at a time.
"""

import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ValidationError

from frostbench.app.jobs.records import Process
from frostbench.embedcache.config import SETTINGS

State = Literal["starting", "listing", "loading", "embedding", "done", "stopped", "failed"]
STATES = get_args(State)
UNFINISHED = ("starting", "listing", "loading", "embedding")
MOST_BAD = 200
"""Largest number of files that could not be read whose reasons are kept in the status; the cache has all of them."""
FEWEST_ROWS, MOST_ROWS = 64, 4096
PARTS = 50


class EmbeddingRequest(BaseModel):
    """What is embedded."""

    model_config = SETTINGS

    folder: str
    """Folder of the photos, relative to that of the page."""
    cache: str
    """Name of the cache, a folder in that of the page."""
    backbone: str
    """PROVIDER:MODEL."""
    group_regex: str = ""
    """Regular expression that extracts each image's group from its path; empty if there is none."""
    device: str = "cpu"
    """Device of the backbone."""


class EmbeddingStatus(BaseModel):
    """How far an embedding is."""

    model_config = SETTINGS

    state: State = "starting"
    """What the process does; the first four states are unfinished."""
    source: str = ""
    """What is listed, relative to the folder of the page: a folder or a manifest."""
    done: int = 0
    """Images done so far, including those that could not be read."""
    kept: int = 0
    """Images whose vectors are on the disk; the others are lost when the embedding stops."""
    total: int = 0
    """Images listed."""
    rate: float = 0.0
    """Images per second in this run; 0 while unknown."""
    notes: tuple[str, ...] = ()
    """Sentences about the listing and the images."""
    n_bad: int = 0
    """Files that could not be read, known at the end."""
    bad: tuple[tuple[str, str], ...] = ()
    """ID and reason of the first of them."""
    error: str = ""
    """Why the embedding failed."""


def rows_per_shard(images: int) -> int:
    """Return the number of images after which vectors are written: a stop loses at most one fiftieth, or 64 images.

    >>> rows_per_shard(100), rows_per_shard(10_000), rows_per_shard(1_000_000)
    (64, 200, 4096)
    """
    return min(MOST_ROWS, max(FEWEST_ROWS, images // PARTS))


def command_of(request: EmbeddingRequest, status: EmbeddingStatus) -> str:
    """Return the command that makes the same cache in the folder of the page; empty before the source is known."""
    if not status.total:
        return ""
    words = ["frostbench", "embed", status.source, "--cache", request.cache, "--backbone", request.backbone]
    words += ["--group-regex", request.group_regex] if request.group_regex else []
    words += ["--device", request.device] if request.device != "cpu" else []
    rows = rows_per_shard(status.total)
    return shlex.join([*words, *(["--shard-rows", str(rows)] if rows != MOST_ROWS else [])])


def read_request(folder: Path) -> EmbeddingRequest | None:
    """Return the request, or None if there is none or it is damaged."""
    try:
        return EmbeddingRequest.model_validate_json((folder / "request.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def read_status(folder: Path) -> EmbeddingStatus:
    """Return the status; that of an embedding that is starting if there is none or it is damaged."""
    try:
        return EmbeddingStatus.model_validate_json((folder / "status.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return EmbeddingStatus()


def read_process(folder: Path) -> Process | None:
    """Return the process that embeds, or None if none was started or its file is damaged."""
    try:
        found = json.loads((folder / "process.json").read_bytes())
        return Process(int(found["pid"]), str(found["boot"]), float(found["start"]))
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def write(folder: Path, content: EmbeddingRequest | EmbeddingStatus | Process) -> None:
    """Write a file atomically: readers see the old or the new content, never a part."""
    if isinstance(content, Process):
        name, text = "process.json", json.dumps(asdict(content))
    else:
        name = "request.json" if isinstance(content, EmbeddingRequest) else "status.json"
        text = content.model_dump_json()
    partial = folder / f".{name}-{os.getpid()}"
    partial.write_text(text, encoding="utf-8")
    partial.replace(folder / name)
