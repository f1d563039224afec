"""Checkpoints: what a stack has learnt so far, on disk, so that a crash costs minutes and not the whole stack.

A file is a line that names the format, a line with the SHA-256 of all that follows, and what torch.save wrote: a
pickle, which is read with weights_only, so that it gives tensors and plain values and runs no code.
"""

import hashlib
import os
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from frostbench.training.engine.events import Epoch
from frostbench.training.engine.run_context import RunContext
from frostbench.training.engine.stack import Stack

FORMAT = 5
"""Raised when a checkpoint changes its meaning; one of another format is not read."""
_START = f"frostbench checkpoint {FORMAT}\n".encode()
_ABANDONED_SECONDS = 3600
"""A temporary file that nobody has written to for so long belongs to a process that died."""


@dataclass(frozen=True)
class Checkpoints:
    """Where the first stages of stacks are kept while they train, and how often.

    The folder belongs to what is read (table, view sets), split and engine version: a checkpoint names its runs, and
    not their data.

    Attributes:
        folder: made when the first checkpoint is written.
        seconds: least time between two checkpoints of a stack.
    """

    folder: Path
    seconds: float = 60.0


class Keeper:
    """Writes and reads the checkpoint of one stack.

    It holds every head that has not been reported as finished: those in training, and those that wait for their
    second stage. A stack of fewer heads than it holds can go on from it, for the others have finished since.
    """

    def __init__(self, checkpoints: Checkpoints, contexts: Sequence[RunContext], skeleton: str) -> None:
        name = hashlib.sha256(skeleton.encode()).hexdigest()[:16]
        self.file = checkpoints.folder / f"{name}.pt"
        self._seconds = checkpoints.seconds
        self._written = time.monotonic()
        self._curves: dict[str, list[dict[str, Any]]] = {key_of(s): [] for s in contexts}
        self.note_on_load = ""
        """Why a checkpoint that is there was not used, in a sentence for people; empty where nothing was wrong."""

    def note(self, context: RunContext, epoch: Epoch) -> None:
        """Remember an epoch, to tell it again after a crash."""
        self._curves[key_of(context)].append(asdict(epoch))

    def save(self, state: dict[str, Any], stack: Stack, order: torch.Generator) -> None:
        """Write the stage's own state with that of its stack, whole or not at all, if the time has come."""
        if time.monotonic() - self._written < self._seconds:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        content = BytesIO()
        whole = {"format": FORMAT, "stack": stack.state(), "order": order.get_state(), "curves": self._curves}
        torch.save(whole | state, content)
        # Two processes may train the same stack: each writes a file of its own, and the last to be whole stays.
        partial = self.file.with_name(f"{self.file.stem}.{uuid.uuid4().hex}.tmp")
        try:
            _write(partial, content)
            partial.replace(self.file)
        finally:
            partial.unlink(missing_ok=True)
        self._written = time.monotonic()

    def _remove_abandoned(self) -> None:
        for path in self.file.parent.glob(f"{self.file.stem}.*.tmp"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()

    def load(self, contexts: Sequence[RunContext]) -> dict[str, Any] | None:
        """The state that was written for all of these runs; None where there is none that can be used.

        A file that is cut short or damaged is left out, and `note_on_load` says so: training starts anew, and its next
        checkpoint takes the file's place.
        """
        if not self.file.is_file():
            return None
        state = self._read()
        if state is None:
            return None
        known = {head["run"] for head in state["heads"]} | {head["run"] for head in state["waiting"]}
        if not {key_of(s) for s in contexts} <= known:
            return None
        self._curves = {key: curve for key, curve in state["curves"].items() if key in self._curves}
        return state

    def _read(self) -> dict[str, Any] | None:
        content = self.file.read_bytes()
        start, payload = content[:_HEAD_BYTES], content[_HEAD_BYTES:]
        if start != _head_of(payload):
            why = "was written by another version" if _is_of_another_format(content) else "is cut short or damaged"
            self.note_on_load = (
                f"a checkpoint has the SHA-256 of its content, however: {self.file} {why}. It is left out, and "
                "training starts anew."
            )
            return None
        state: dict[str, Any] = torch.load(BytesIO(payload), weights_only=True)
        return state

    def told(self, context: RunContext) -> list[Epoch]:
        """The epochs of a run that were told before the crash."""
        found = [Epoch(**tree) for tree in self._curves[key_of(context)]]
        return [Epoch(context.number, e.epoch, e.loss, e.metrics, e.best_epoch, e.logs) for e in found]

    def remove(self) -> None:
        """The stack has finished."""
        self.file.unlink(missing_ok=True)


def _write(path: Path, content: BytesIO) -> None:
    with path.open("wb") as file:
        file.write(_head_of(content.getbuffer()))
        file.write(content.getbuffer())
        file.flush()
        os.fsync(file.fileno())


def _is_of_another_format(content: bytes) -> bool:
    """Whether a file is a checkpoint of another format; the first had no head and was a zip file."""
    found = re.match(rb"frostbench checkpoint (\d+)\n", content)
    return content.startswith(b"PK") or (found is not None and int(found[1]) != FORMAT)


def _head_of(payload: bytes | memoryview) -> bytes:
    """What a checkpoint with this content begins with."""
    return _START + hashlib.sha256(payload).hexdigest().encode() + b"\n"


_HEAD_BYTES = len(_head_of(b""))


def key_of(context: RunContext) -> str:
    """What names a run within the checkpoint of its stack."""
    return context.run.model_dump_json()
