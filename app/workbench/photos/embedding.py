"""Starting, watching, stopping and resuming the embedding of a store."""

import json
import re
import subprocess
import sys
import threading
import time
from typing import Any

from filelock import FileLock, Timeout

from frostbench.app.jobs.process import find_alive, identity
from frostbench.app.workbench.photos.records import (
    UNFINISHED,
    EmbeddingRequest,
    EmbeddingStatus,
    command_of,
    read_process,
    read_request,
    read_status,
    write,
)
from frostbench.app.workbench.requests import RequestError
from frostbench.app.workspace import Workspace
from frostbench.embedcache.items import escape_name

MODULE = "frostbench.app.workbench.photos.worker"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_PART = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
BACKBONE = re.compile(rf"(?:bundled|timm|huggingface|open_clip):(?:hf-hub:)?{_PART}(?:/{_PART})?")
"""Backbones that the page may load: none that names a file of this machine."""
MOST_LETTERS = 200
LOST = (
    "The process that embeds has ended without a message: it was stopped from outside, memory was short, or the "
    "machine was restarted. Resume continues after what is on the disk."
)
LOCK_SECONDS = 5.0
STARTING_SECONDS = 10.0
"""Time within which the server notes the process that it starts."""


class Embedding:
    """The one embedding of the page's store; its state is in files, so that it outlives the server."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._folder = workspace.store / "embedding"

    def state(self) -> dict[str, Any] | None:
        """Return request, status and progress of the embedding, or None if there is none.

        Besides the states of `EmbeddingStatus` there is `lost`: the process has ended without a message.
        """
        request = read_request(self._folder)
        if request is None:
            return None
        status, lost = self._status()
        left = (status.total - status.done) / status.rate if status.rate else None
        about: dict[str, Any] = status.model_dump() | {"request": request.model_dump(), "seconds_left": left}
        about |= {"name": self.cache_name(request.cache), "command": command_of(request, status)}
        about |= {"stopping": (self._folder / "stop").exists()}
        return about | ({"state": "lost", "error": LOST, "done": status.kept} if lost else {})

    def summary(self) -> dict[str, Any] | None:
        """Return `share` in percent and `seconds_left` (None if unknown) of a running embedding, or None."""
        if read_request(self._folder) is None:
            return None
        status, lost = self._status()
        if lost or status.state not in UNFINISHED:
            return None
        left = (status.total - status.done) / status.rate if status.rate else None
        return {"share": round(100 * status.done / max(1, status.total)), "seconds_left": left}

    def start(self, request: EmbeddingRequest) -> None:
        """Start an embedding.

        Raises:
            RequestError: another one is running.
            OSError: the files cannot be written, or no process can be started.
        """
        self._launch(request)

    def resume(self) -> None:
        """Continue the embedding that was stopped, failed or lost.

        Raises:
            RequestError: there is none, or it is running or done; or its request is none that the page would make.
        """
        request = read_request(self._folder)
        status, lost = self._status()
        if request is None or not (lost or status.state in ("stopped", "failed")):
            raise RequestError("There is no embedding to resume. Reload the page.")
        # The files may come from another machine.
        check_backbone(request.backbone)
        check_cache_name(request.cache)
        folder = folder_of(request.folder, self._workspace)
        self._launch(request.model_copy(update={"folder": folder, "device": self._workspace.device}))

    def stop(self) -> None:
        """Ask the embedding to stop after the current images.

        Raises:
            RequestError: none is running.
        """
        if self.summary() is None:
            raise RequestError("No embedding is running. Reload the page.")
        (self._folder / "stop").touch()

    def forget(self) -> None:
        """Forget an embedding that has ended; its cache stays.

        Raises:
            RequestError: it is running.
        """
        if self.summary() is not None:
            raise RequestError("The embedding is running. Stop it first.")
        (self._folder / "request.json").unlink(missing_ok=True)

    def cache_name(self, name: str) -> str:
        """Return how the page calls a cache."""
        return str(self._workspace.root / name)

    def problem_of(self, name: str, description: dict[str, Any]) -> tuple[str, bool]:
        """Return why a cache cannot get a name, or "", and whether an unfinished cache of the images is continued.

        Args:
            name: the name.
            description: description of the listing of the images.
        """
        try:
            check_cache_name(name)
        except RequestError as error:
            return str(error), False
        cache = self._workspace.root / name
        if self._workspace.store.resolve().is_relative_to(cache.resolve()):
            return f"{name} is the folder of the run store. Choose another name.", False
        if not cache.exists() and not cache.is_symlink():
            return "", False
        if cache.is_symlink() or not cache.is_dir():
            return f"{name} exists already and is no folder. Choose another name.", False
        if (cache / "manifest.json").exists() or not (cache / "cache.json").exists():
            return ("", False) if not any(cache.iterdir()) else (f"{name} exists already. Choose another name.", False)
        try:
            found = json.loads((cache / "cache.json").read_bytes()).get("source")
        except (ValueError, AttributeError, RecursionError):
            found = None
        if found != description:
            return f"{name} is an unfinished cache of other images. Choose another name.", False
        return "", True

    def _status(self) -> tuple[EmbeddingStatus, bool]:
        """Return the status, and whether the process has ended without a message."""
        status = read_status(self._folder)
        process = read_process(self._folder)
        if status.state not in UNFINISHED or find_alive(process) is not None:
            return status, False
        if process is None and time.time() - (self._folder / "request.json").stat().st_mtime < STARTING_SECONDS:
            return status, False
        # The process may have written its end after the first read.
        status = read_status(self._folder)
        return status, status.state in UNFINISHED

    def _launch(self, request: EmbeddingRequest) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._folder / "lock", timeout=LOCK_SECONDS):
                if self.summary() is not None:
                    raise RequestError("Another embedding is running. Wait until it ends, or stop it.")
                for name in ("status.json", "process.json", "stop"):
                    (self._folder / name).unlink(missing_ok=True)
                write(self._folder, request)
                self._start_process()
        except Timeout as error:
            raise RequestError("Another embedding is being started. Reload the page.") from error

    def _start_process(self) -> None:
        # -u: keep every line in the log, however the process ends. -P: import no modules from the current directory.
        command = [sys.executable, "-u", "-P", "-m", MODULE, str(self._folder.resolve())]
        with (self._folder / "log.txt").open("wb") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            root = self._workspace.root.resolve()
            process = subprocess.Popen(command, cwd=root, start_new_session=True, **streams)
        write(self._folder, identity(process.pid))
        # A child whose exit status is never read stays a zombie.
        threading.Thread(target=process.wait, daemon=True).start()


def folder_of(name: str, workspace: Workspace) -> str:
    """Return a folder of photos relative to the root, which it must not be.

    Raises:
        SettingsError: it is outside the root or no readable folder.
        RequestError: it is the root, or holds the store.
    """
    folder, root = workspace.folder(name), workspace.root.resolve()
    if workspace.store.resolve().is_relative_to(folder):
        raise RequestError(
            f"The photos must be in a folder below {root} that does not hold the run store, got {name!r}. Name that "
            "folder, or start the page in the folder above."
        )
    if folder == root:
        raise RequestError(
            f"The photos must be in a folder below {root}, because the cache goes beside it, got {name!r}. Name that "
            "folder, or start the page in the folder above."
        )
    return folder.relative_to(root).as_posix()


def check_cache_name(name: str) -> None:
    """Check that a cache can be a folder of this name beside the photos.

    Raises:
        RequestError: the name has other characters.
    """
    if not NAME.fullmatch(name):
        raise RequestError(
            f"A cache's name must have 1 to 80 letters, digits, dots, dashes and underscores, and start with a letter "
            f"or digit, got {escape_name(name[:100])!r}. Change it."
        )


def check_backbone(text: str) -> None:
    """Check that a backbone is named by its provider and does not name a file of this machine.

    Raises:
        RequestError: it is not.
    """
    if len(text) > MOST_LETTERS or not BACKBONE.fullmatch(text):
        raise RequestError(
            "A backbone must be named PROVIDER:MODEL with provider bundled, timm, huggingface or open_clip, such as "
            f"timm:vit_small_patch16_dinov3.lvd1689m, got {text[:MOST_LETTERS]!r}. Models in files need "
            "`frostbench embed` on the command line."
        )
