"""The training loop of one stage of gradient steps, which keeps the best epoch of each head."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from frostbench.heads.head import Core
from frostbench.training.engine.checkpoint import Keeper, key_of
from frostbench.training.engine.events import Epoch, Noted, Reason
from frostbench.training.engine.run_context import RunContext
from frostbench.training.engine.selection import logs_of, selection_metrics, show_selection
from frostbench.training.engine.stages import Stage
from frostbench.training.engine.step_inputs import PerStep
from frostbench.training.metrics.classification import NOTHING, Preference, preference
from frostbench.training.spec.stage import EarlyStop

STOP_CHECK_SECONDS = 1.0
"""Time between two calls of `stop` within a pass; it is also called after each pass."""


@dataclass(frozen=True)
class StageFinished:
    """The end of a stage for one head.

    Attributes:
        context: context of the run.
        core: the trained core, restored to the kept epoch.
        reason: why the stage ended.
        epoch: the kept epoch; 0 if no epoch could be kept.
        last: the last epoch that was trained.
        progress: progress of the stage, from 0 to 1, at the last step of the kept epoch.
        recall_many: recall of many-shot classes on the validation rows at the kept epoch, or None if there are no such
            classes.
    """

    context: RunContext
    core: Core
    reason: Reason
    epoch: int
    last: int
    progress: float
    recall_many: float | None


@dataclass
class _HeadProgress:
    """Best epoch of a head in training so far.

    Attributes:
        context: context of the run.
        early_stop: rule that chooses the kept epoch.
        done: epochs before this stage.
        floor: minimum recall of many-shot classes for an epoch to be kept, or None for no minimum.
        best: parameters of the best epoch; empty if there is none yet.
        best_value: preference of the best epoch (`frostbench.training.metrics.classification.preference`).
        best_epoch: number of the best epoch; 0 if there is none yet.
        best_pass: number of the best epoch within this stage.
        recall_many: recall of many-shot classes at the best epoch.
    """

    context: RunContext
    early_stop: EarlyStop
    done: int
    floor: float | None = None
    best: dict[str, Tensor] = field(default_factory=dict)
    best_value: Preference = NOTHING
    best_epoch: int = 0
    best_pass: int = 0
    recall_many: float | None = None

    def state(self) -> dict[str, Any]:
        """Return the values for a checkpoint."""
        best = {"best": self.best, "best_value": self.best_value, "recall_many": self.recall_many}
        return best | {"run": key_of(self.context), "best_epoch": self.best_epoch, "best_pass": self.best_pass}

    def restore(self, state: dict[str, Any]) -> None:
        """Load the values from a checkpoint."""
        self.best, self.best_value = state["best"], tuple(state["best_value"])
        self.best_epoch, self.best_pass = state["best_epoch"], state["best_pass"]
        self.recall_many = state["recall_many"]


def run_stage(
    stage: Stage, done: Sequence[int], stop: Callable[[], bool], keeper: Keeper | None = None
) -> Iterator[Epoch | StageFinished | Noted]:
    """Train the heads of a stack by gradient steps and yield events; `done` counts the earlier epochs of each head.

    A head that ends is restored to its best epoch, and the others continue. With a keeper, an interrupted stage
    resumes from its checkpoint and reports its earlier epochs again.
    """
    per_head = zip(stage.contexts, stage.early_stops, done, stage.floors, strict=True)
    heads = [_HeadProgress(context, early_stop, before, floor) for context, early_stop, before, floor in per_head]
    waiting: list[dict[str, Any]] = []
    last, first = stage.epochs, 1
    state = keeper.load(stage.contexts) if keeper else None
    if keeper and keeper.note_on_load:
        yield Noted(stage.contexts[0].number, keeper.note_on_load)
    if keeper and state:
        first, waiting = state["epoch"] + 1, state["waiting"]
        heads = yield from _resume(stage, heads, state, keeper)
    for epoch in range(first, last + 1):
        reasons = yield from _epoch(stage, heads, epoch, last, stop, keeper)
        for index, (head, reason) in enumerate(zip(heads, reasons, strict=True)):
            if reason is not None:
                waiting += [head.state() | {"reason": reason, "last": head.done + epoch}]
                yield _finish(stage, index, head, reason, head.done + epoch)
        remaining = [index for index, reason in enumerate(reasons) if reason is None]
        if not remaining:
            return
        if len(remaining) < len(heads):
            heads = [heads[index] for index in remaining]
            stage.stack.keep(remaining)
        if keeper:
            progress = {"epoch": epoch, "heads": [head.state() for head in heads], "waiting": waiting}
            keeper.save(progress, stage.stack, stage.order)


def _resume(
    stage: Stage, heads: list[_HeadProgress], state: dict[str, Any], keeper: Keeper
) -> Generator[Epoch | StageFinished, None, list[_HeadProgress]]:
    """Restore a stage from its checkpoint, yield its earlier events, and return the heads still in training."""
    finished = {head["run"]: head for head in state["waiting"]}
    indices = {head["run"]: index for index, head in enumerate(state["heads"])}
    for index, head in enumerate(heads):
        yield from keeper.epochs_of(head.context)
        key = key_of(head.context)
        head.restore(finished.get(key) or state["heads"][indices[key]])
        if key in finished:
            yield _finish(stage, index, head, finished[key]["reason"], finished[key]["last"])
    remaining = [index for index, head in enumerate(heads) if key_of(head.context) not in finished]
    active = [heads[index] for index in remaining]
    if active:
        if len(active) < len(heads):
            stage.stack.keep(remaining)
        stage.stack.restore(state["stack"], [indices[key_of(head.context)] for head in active])
        stage.order.set_state(state["order"])
    return active


def _epoch(
    stage: Stage,
    heads: Sequence[_HeadProgress],
    epoch: int,
    last: int,
    stop: Callable[[], bool],
    keeper: Keeper | None,
) -> Generator[Epoch, None, list[Reason | None]]:
    """Train and evaluate one epoch, yield an event per head, and return why each head ends, or None if it continues."""
    losses, is_cut = _pass(stage, epoch, last, stop)
    metrics, logs = selection_metrics(stage.contexts[0], stage.stack), logs_of(stage.stack)
    data = stage.contexts[0].data
    show_selection(stage.stack, data.select.labels, len(data.class_names))
    # An overflow in the last step shows in the predictions, but not yet in the loss from before that step.
    losses = [x if math.isfinite(m["brier"] or 0.0) else math.nan for x, m in zip(losses, metrics, strict=True)]
    for index, head in enumerate(heads):
        if math.isfinite(losses[index]):
            event = replace(_after_epoch(stage, index, head, epoch, losses[index], metrics[index]), logs=logs[index])
            if keeper:
                keeper.note(head.context, event)
            yield event
    is_stopped = is_cut or (epoch < last and stop())
    return [_reason(stage, head, epoch, losses[i], is_stopped) for i, head in enumerate(heads)]


def _finish(stage: Stage, index: int, head: _HeadProgress, reason: Reason, last: int) -> StageFinished:
    """Restore a head to its best epoch and return the end of its stage."""
    if head.best:
        stage.stack.put_back(index, head.best)
    # The next epoch starts at best_pass / epochs; anything scheduled to start there has not affected this one.
    progress = math.nextafter(head.best_pass / stage.epochs, 0.0)
    core = stage.stack.objectives[index].core
    return StageFinished(head.context, core, reason, head.best_epoch, last, progress, head.recall_many)


def _pass(stage: Stage, epoch: int, epochs: int, stop: Callable[[], bool]) -> tuple[list[float], bool]:
    """Train one pass and return the mean objective [K] of its steps and whether `stop` ended it early.

    `stop` is called about once per second within a pass, so that cancelling a long pass keeps what was trained so far.
    """
    labels, template = stage.rows.labels, stage.stack.objectives[0]
    batches = stage.batches((epoch - 1) / epochs)
    losses: list[Tensor] = []
    checked, is_cut = time.monotonic(), False
    for step, rows in enumerate(batches):
        progress = (epoch - 1 + step / len(batches)) / epochs
        # The middle of the step, so that the rate is above 0 even if there is only one step.
        middle = (epoch - 1 + (step + 0.5) / len(batches)) / epochs
        mixing = template.spec.mixing
        layer = 0 if mixing is None else mixing.draw_layer(template.core.body.depth, stage.order)
        per_step = PerStep(layer, progress, *stage.rows.shared(rows))
        losses.append(stage.stack.step(rows, labels[rows], per_step, stage.schedule.factor(middle)))
        if time.monotonic() - checked > STOP_CHECK_SECONDS and len(losses) < len(batches):
            checked, is_cut = time.monotonic(), stop()
            if is_cut:
                break
    return torch.stack(losses).mean(0).tolist(), is_cut


def _after_epoch(
    stage: Stage, index: int, head: _HeadProgress, epoch: int, loss: float, metrics: dict[str, float | None]
) -> Epoch:
    """Keep the head if it is better than before, and return the event of the epoch."""
    name, given = head.early_stop.metric, head.early_stop.epoch
    value = (float(epoch), 0.0) if given or name == "last" else preference(metrics, name)
    many = metrics["recall_many"]
    # A recall that equals the floor up to rounding is accepted.
    is_allowed = given or head.floor is None or many is None or many >= head.floor - 1e-9
    if is_allowed and value > head.best_value:
        head.best, head.best_value, head.recall_many = stage.stack.parameters_of(index), value, many
        head.best_epoch, head.best_pass = head.done + epoch, epoch
    return Epoch(head.context.number, head.done + epoch, loss, metrics, head.best_epoch)


def _reason(stage: Stage, head: _HeadProgress, epoch: int, loss: float, is_stopped: bool) -> Reason | None:
    """Return why a head ends after a pass, or None if it continues."""
    if not math.isfinite(loss):
        return "diverged"
    if epoch == head.early_stop.epoch:
        return "given_epoch"
    if epoch - max(head.best_pass, stage.patience_start) >= stage.scaled_patience(head.early_stop.patience):
        return "early_stop"
    return "stopped" if is_stopped else "all_epochs" if epoch == stage.epochs else None
