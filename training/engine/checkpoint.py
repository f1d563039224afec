"""Checkpoints of stacks in training, so that a crash costs minutes instead of a whole stack.

A file consists of a line with the format, a line with the SHA-256 of the payload, and the payload written by
torch.save. It is a pickle that is read with weights_only=True: tensors and plain values, and no code execution.
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
"""Increment it when the meaning of a checkpoint changes; checkpoints of other formats are not read."""
_START = f"frostbench checkpoint {FORMAT}\n".encode()
_ABANDONED_SECONDS = 3600
"""Age at which a temporary file is taken for that of a dead process."""


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often the first stages of stacks are saved.

    A checkpoint names its runs but not their data. Use one folder per combination of data (table, view sets), split
    and engine version.

    Attributes:
        folder: folder of the checkpoints, created with the first one.
        seconds: minimum time between two checkpoints of a stack.
    """

    folder: Path
    seconds: float = 60.0


class Keeper:
    """Writer and reader of the checkpoint of one stack.

    The checkpoint holds every head that has not been reported as finished: those in training and those waiting for
    their second stage. A stack with fewer heads can resume from it, because the missing heads have finished since.
    """

    def __init__(self, checkpoints: Checkpoints, contexts: Sequence[RunContext], skeleton: str) -> None:
        name = hashlib.sha256(skeleton.encode()).hexdigest()[:16]
        self.file = checkpoints.folder / f"{name}.pt"
        self._seconds = checkpoints.seconds
        self._written = time.monotonic()
        self._curves: dict[str, list[dict[str, Any]]] = {key_of(s): [] for s in contexts}
        self.note_on_load = ""
        """Message for the user about why an existing checkpoint was not used, or empty."""

    def note(self, context: RunContext, epoch: Epoch) -> None:
        """Record an epoch so that it can be reported again after a crash."""
        self._curves[key_of(context)].append(asdict(epoch))

    def save(self, state: dict[str, Any], stack: Stack, order: torch.Generator) -> None:
        """Write the state of a stage and its stack atomically, unless the last checkpoint is too recent."""
        if time.monotonic() - self._written < self._seconds:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        content = BytesIO()
        common = {"format": FORMAT, "stack": stack.state(), "order": order.get_state(), "curves": self._curves}
        torch.save(common | state, content)
        # Two processes may train the same stack: each writes its own temporary file, and the last complete one stays.
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
        """Return the state that was saved for all of these runs, or None if there is no usable one.

        A truncated or damaged file is ignored and `note_on_load` is set: training starts from the beginning, and its
        next checkpoint replaces the file.
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
        header, payload = content[:_HEADER_BYTES], content[_HEADER_BYTES:]
        if header != _header_of(payload):
            why = "was written by another version" if _is_of_another_format(content) else "is truncated or damaged"
            self.note_on_load = f"checkpoint {self.file} {why}: it is ignored and training starts from the beginning."
            return None
        state: dict[str, Any] = torch.load(BytesIO(payload), weights_only=True)
        return state

    def epochs_of(self, context: RunContext) -> list[Epoch]:
        """Return the epochs of a run that were reported before the crash."""
        return [Epoch(**epoch | {"run": context.number}) for epoch in self._curves[key_of(context)]]

    def remove(self) -> None:
        """Delete the checkpoint of a finished stack."""
        self.file.unlink(missing_ok=True)


def _write(path: Path, content: BytesIO) -> None:
    with path.open("wb") as file:
        file.write(_header_of(content.getbuffer()))
        file.write(content.getbuffer())
        file.flush()
        os.fsync(file.fileno())


def _is_of_another_format(content: bytes) -> bool:
    """Return whether a file is a checkpoint of another format; the first format was a zip file without a header."""
    match = re.match(rb"frostbench checkpoint (\d+)\n", content)
    return content.startswith(b"PK") or (match is not None and int(match[1]) != FORMAT)


def _header_of(payload: bytes | memoryview) -> bytes:
    """Return the two header lines of a checkpoint with this payload."""
    return _START + hashlib.sha256(payload).hexdigest().encode() + b"\n"


_HEADER_BYTES = len(_header_of(b""))


def key_of(context: RunContext) -> str:
    """Return the key of a run within the checkpoint of its stack."""
    return context.run.model_dump_json()
