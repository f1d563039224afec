"""Checkpoints: what a stack has learnt so far, on disk, so that a crash costs minutes and not the whole stack."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from training.events import Epoch
from training.setting import Setting
from training.stack import Stack

FORMAT = 3
"""Raised when a checkpoint changes its meaning; one of another format is not read."""


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

    def __init__(self, checkpoints: Checkpoints, settings: Sequence[Setting], skeleton: str) -> None:
        name = hashlib.sha256(skeleton.encode()).hexdigest()[:16]
        self.file = checkpoints.folder / f"{name}.pt"
        self._seconds = checkpoints.seconds
        self._written = time.monotonic()
        self._curves: dict[str, list[dict[str, Any]]] = {key_of(s): [] for s in settings}

    def note(self, setting: Setting, epoch: Epoch) -> None:
        """Remember an epoch, to tell it again after a crash."""
        self._curves[key_of(setting)].append(asdict(epoch))

    def save(self, state: dict[str, Any], stack: Stack, order: torch.Generator) -> None:
        """Write the stage's own state with that of its stack, whole or not at all, if the time has come."""
        if time.monotonic() - self._written < self._seconds:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".tmp")
        whole = {"format": FORMAT, "stack": stack.state(), "order": order.get_state(), "curves": self._curves}
        torch.save(whole | state, partial)
        partial.replace(self.file)
        self._written = time.monotonic()

    def load(self, settings: Sequence[Setting]) -> dict[str, Any] | None:
        """The state that was written for all of these runs; None where there is none that can be used."""
        if not self.file.is_file():
            return None
        state: dict[str, Any] = torch.load(self.file, weights_only=True)
        known = {head["run"] for head in state["heads"]} | {head["run"] for head in state["waiting"]}
        if state["format"] != FORMAT or not {key_of(s) for s in settings} <= known:
            return None
        self._curves = {key: curve for key, curve in state["curves"].items() if key in self._curves}
        return state

    def told(self, setting: Setting) -> list[Epoch]:
        """The epochs of a run that were told before the crash."""
        found = [Epoch(**tree) for tree in self._curves[key_of(setting)]]
        return [Epoch(setting.number, e.epoch, e.loss, e.metrics, e.best_epoch, e.logs) for e in found]

    def remove(self) -> None:
        """The stack has finished."""
        self.file.unlink(missing_ok=True)


def key_of(setting: Setting) -> str:
    """What names a run within the checkpoint of its stack."""
    return setting.run.model_dump_json()
