"""A stage of gradient steps: passes over rows, the best of which is kept for each head."""

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

SECONDS_BETWEEN_QUESTIONS = 1.0
"""How often `stop` is asked within a pass; it is also asked after each."""


@dataclass(frozen=True)
class Ended:
    """A head left its stage.

    Attributes:
        context: its run.
        core: what the stage trained of it.
        reason: why it ended.
        epoch: the epoch that was kept, and that its head is as after; 0 where it diverged before there was one.
        last: the last epoch that was done.
        progress: of the stage, from 0 to 1, in the last step before the kept epoch ended.
        recall_many: of the selection rows of frequent classes at the kept epoch; None where there are none.
    """

    context: RunContext
    core: Core
    reason: Reason
    epoch: int
    last: int
    progress: float
    recall_many: float | None


@dataclass
class _Head:
    """A head in training, after the pass that it has reached.

    Attributes:
        context: its run.
        early_stop: which epoch it keeps.
        done: epochs before this stage.
        floor: the least recall of frequent classes that an epoch must have to be kept; None asks for none.
        best: parameters of its best epoch so far; empty where there is none.
        best_value: what decides there, as `frostbench.training.metrics.classification.preference` has it.
        best_epoch: which epoch that was, 0 where there is none.
        best_pass: the same, counted from the stage's first.
        recall_many: of frequent classes at that epoch.
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
        """What a checkpoint keeps of it."""
        best = {"best": self.best, "best_value": self.best_value, "recall_many": self.recall_many}
        return best | {"run": key_of(self.context), "best_epoch": self.best_epoch, "best_pass": self.best_pass}


def run_stage(
    stage: Stage, done: Sequence[int], stop: Callable[[], bool], keeper: Keeper | None = None
) -> Iterator[Epoch | Ended | Noted]:
    """Train the heads of a stack by gradient steps, after as many done epochs as each has.

    A head that ends is left as it was after its best epoch, and the others go on. With a keeper, a stage that was cut
    off goes on from its checkpoint, and tells its epochs once more.
    """
    each = zip(stage.contexts, stage.early_stops, done, stage.floors, strict=True)
    heads = [_Head(context, early_stop, before, floor) for context, early_stop, before, floor in each]
    waiting: list[dict[str, Any]] = []
    last, first = stage.epochs, 1
    state = keeper.load(stage.contexts) if keeper else None
    if keeper and keeper.note_on_load:
        yield Noted(stage.contexts[0].number, keeper.note_on_load)
    if keeper and state:
        first, waiting = state["epoch"] + 1, state["waiting"]
        heads = yield from _resumed(stage, heads, state, keeper)
    for epoch in range(first, last + 1):
        reasons = yield from _epoch(stage, heads, epoch, last, stop, keeper)
        for place, (head, reason) in enumerate(zip(heads, reasons, strict=True)):
            if reason is not None:
                waiting += [head.state() | {"reason": reason, "last": head.done + epoch}]
                yield _ended(stage, place, head, reason, head.done + epoch)
        remaining = [place for place, reason in enumerate(reasons) if reason is None]
        if not remaining:
            return
        if len(remaining) < len(heads):
            heads = [heads[place] for place in remaining]
            stage.stack.keep(remaining)
        if keeper:
            own = {"epoch": epoch, "heads": [head.state() for head in heads], "waiting": waiting}
            keeper.save(own, stage.stack, stage.order)


def _resumed(
    stage: Stage, heads: list[_Head], state: dict[str, Any], keeper: Keeper
) -> Generator[Epoch | Ended, None, list[_Head]]:
    """Bring a stage to where its checkpoint was written, and tell what was told before; the heads that go on."""
    ended = {tree["run"]: tree for tree in state["waiting"]}
    places = {tree["run"]: place for place, tree in enumerate(state["heads"])}
    for place, head in enumerate(heads):
        yield from keeper.told(head.context)
        tree = ended.get(key_of(head.context)) or state["heads"][places[key_of(head.context)]]
        head.best, head.best_value = tree["best"], tuple(tree["best_value"])
        head.best_epoch, head.best_pass = tree["best_epoch"], tree["best_pass"]
        head.recall_many = tree["recall_many"]
        if key_of(head.context) in ended:
            yield _ended(stage, place, head, tree["reason"], tree["last"])
    remaining = [place for place, head in enumerate(heads) if key_of(head.context) not in ended]
    going_on = [heads[place] for place in remaining]
    if going_on:
        if len(going_on) < len(heads):
            stage.stack.keep(remaining)
        stage.stack.restore(state["stack"], [places[key_of(head.context)] for head in going_on])
        stage.order.set_state(state["order"])
    return going_on


def _epoch(
    stage: Stage, heads: Sequence[_Head], epoch: int, last: int, stop: Callable[[], bool], keeper: Keeper | None
) -> Generator[Epoch, None, list[Reason | None]]:
    """One pass and its judgement: tells each head's epoch; why heads end after it, None where they go on."""
    losses, is_cut = _pass(stage, epoch, last, stop)
    metrics, logs = selection_metrics(stage.contexts[0], stage.stack), logs_of(stage.stack)
    data = stage.contexts[0].data
    show_selection(stage.stack, data.select.labels, len(data.class_names))
    # Numbers that overflowed in the last step show in what is predicted, and not yet in the loss from before it.
    losses = [x if math.isfinite(m["brier"] or 0.0) else math.nan for x, m in zip(losses, metrics, strict=True)]
    for place, head in enumerate(heads):
        if math.isfinite(losses[place]):
            after = _after_epoch(stage, place, head, epoch, losses[place], metrics[place])
            after = replace(after, logs=logs[place])
            if keeper:
                keeper.note(head.context, after)
            yield after
    is_stopped = is_cut or (epoch < last and stop())
    return [_reason(stage, head, epoch, losses[i], is_stopped) for i, head in enumerate(heads)]


def _ended(stage: Stage, place: int, head: _Head, reason: Reason, last: int) -> Ended:
    """The end of a head, which is put back to its best."""
    if head.best:
        stage.stack.put_back(place, head.best)
    # The epoch after begins at best_pass / epochs, and what comes in there has not acted on this one.
    progress = math.nextafter(head.best_pass / stage.epochs, 0.0)
    core = stage.stack.objectives[place].core
    return Ended(head.context, core, reason, head.best_epoch, last, progress, head.recall_many)


def _pass(stage: Stage, epoch: int, epochs: int, stop: Callable[[], bool]) -> tuple[list[float], bool]:
    """One pass, 1 for the stage's first: the mean objective [K] of its steps, and whether it was cut short.

    Within a pass `stop` is asked once a second, so that a person who cancels a long one gets what it has learnt so far.
    """
    labels, template = stage.rows.labels, stage.stack.objectives[0]
    batches = stage.batches((epoch - 1) / epochs)
    losses: list[Tensor] = []
    asked, is_cut = time.monotonic(), False
    for step, rows in enumerate(batches):
        progress = (epoch - 1 + step / len(batches)) / epochs
        # Between its start and its end: no step stands still, were it the only one.
        middle = (epoch - 1 + (step + 0.5) / len(batches)) / epochs
        mixing = template.spec.mixing
        layer = 0 if mixing is None else mixing.draw_layer(template.core.body.depth, stage.order)
        moment = PerStep(layer, progress, *stage.rows.shared(rows))
        losses.append(stage.stack.step(rows, labels[rows], moment, stage.schedule.factor(middle)))
        if time.monotonic() - asked > SECONDS_BETWEEN_QUESTIONS and len(losses) < len(batches):
            asked, is_cut = time.monotonic(), stop()
            if is_cut:
                break
    return torch.stack(losses).mean(0).tolist(), is_cut


def _after_epoch(
    stage: Stage, place: int, head: _Head, epoch: int, loss: float, metrics: dict[str, float | None]
) -> Epoch:
    """Keep the head where it is better than before; what is to be told."""
    name, given = head.early_stop.metric, head.early_stop.epoch
    value = (float(epoch), 0.0) if given or name == "last" else preference(metrics, name)
    many = metrics["recall_many"]
    # Shares are sums of some ten numbers: a limit that is met exactly is met.
    is_allowed = given or head.floor is None or many is None or many >= head.floor - 1e-9
    if is_allowed and value > head.best_value:
        head.best, head.best_value, head.recall_many = stage.stack.parameters_of(place), value, many
        head.best_epoch, head.best_pass = head.done + epoch, epoch
    return Epoch(head.context.number, head.done + epoch, loss, metrics, head.best_epoch)


def _reason(stage: Stage, head: _Head, epoch: int, loss: float, is_stopped: bool) -> Reason | None:
    """Why a head ends after a pass; None where it goes on."""
    if not math.isfinite(loss):
        return "diverged"
    if epoch == head.early_stop.epoch:
        return "given_epoch"
    if epoch - max(head.best_pass, stage.ripe) >= stage.stretched(head.early_stop.patience):
        return "early_stop"
    return "stopped" if is_stopped else "all_epochs" if epoch == stage.epochs else None
