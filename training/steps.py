"""A stage of gradient steps: passes over rows, the best of which is kept for each head."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from heads.head import Core
from training.events import Epoch, Reason
from training.metrics import to_raise
from training.objective import Moment
from training.selection import selection_metrics
from training.setting import Setting
from training.stage_spec import EarlyStop
from training.stages import Stage

SECONDS_BETWEEN_QUESTIONS = 1.0
"""How often `stop` is asked within a pass; it is also asked after each."""


@dataclass(frozen=True)
class Ended:
    """A head left its stage.

    Attributes:
        setting: its run.
        core: what the stage trained of it.
        reason: why it ended.
        epoch: the epoch that was kept, and that its head is as after; 0 where it diverged before there was one.
        last: the last epoch that was done.
    """

    setting: Setting
    core: Core
    reason: Reason
    epoch: int
    last: int


@dataclass
class _Head:
    """A head in training: which epoch it keeps, the one it began after, and the parameters, value, epoch and pass of its best so far."""

    setting: Setting
    early_stop: EarlyStop
    done: int
    best: dict[str, Tensor] = field(default_factory=dict)
    best_value: float = -math.inf
    best_epoch: int = 0
    best_pass: int = 0


def run_stage(stage: Stage, done: Sequence[int], stop: Callable[[], bool]) -> Iterator[Epoch | Ended]:
    """Train the heads of a stack by gradient steps, after as many done epochs as each has.

    A head that ends is left as it was after its best epoch, and the others go on.
    """
    heads = [_Head(s, e, d) for s, e, d in zip(stage.settings, stage.early_stops, done, strict=True)]
    last = stage.schedule.epochs_for(len(stage.labels))
    for epoch in range(1, last + 1):
        losses, is_cut = _pass(stage, epoch, last, stop)
        metrics = selection_metrics(stage.settings[0], stage.stack)
        # Numbers that overflowed in the last step show in what is predicted, and not yet in the loss from before it.
        losses = [x if math.isfinite(m["brier"] or 0.0) else math.nan for x, m in zip(losses, metrics, strict=True)]
        for place, head in enumerate(heads):
            if math.isfinite(losses[place]):
                yield _after_epoch(stage, place, head, epoch, losses[place], metrics[place])
        is_stopped = is_cut or (epoch < last and stop())
        reasons = [_reason(head, epoch, losses[i], is_stopped, epoch == last) for i, head in enumerate(heads)]
        for place, (head, reason) in enumerate(zip(heads, reasons, strict=True)):
            if reason is not None:
                if head.best:
                    stage.stack.put_back(place, head.best)
                core = stage.stack.objectives[place].core
                yield Ended(head.setting, core, reason, head.best_epoch, head.done + epoch)
        remaining = [place for place, reason in enumerate(reasons) if reason is None]
        if not remaining:
            return
        if len(remaining) < len(heads):
            heads = [heads[place] for place in remaining]
            stage.stack.keep(remaining)


def _pass(stage: Stage, epoch: int, epochs: int, stop: Callable[[], bool]) -> tuple[list[float], bool]:
    """One pass, 1 for the stage's first: the mean objective [K] of its steps, and whether it was cut short.

    Within a pass `stop` is asked once a second, so that a person who cancels a long one gets what it has learnt so far.
    """
    labels, template = stage.labels, stage.stack.objectives[0]
    batches = stage.batches((epoch - 1) / epochs)
    losses: list[Tensor] = []
    asked, is_cut = time.monotonic(), False
    for step, rows in enumerate(batches):
        progress = (epoch - 1 + step / len(batches)) / epochs
        after = (epoch - 1 + (step + 1) / len(batches)) / epochs
        moment = Moment(template.spec.mixup.draw_layer(template.core.body.depth, stage.order), progress)
        losses.append(stage.stack.step(rows, labels[rows], moment, stage.schedule.factor(after)))
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
    value = float(epoch) if given or name == "last" else to_raise(metrics, name)
    if value > head.best_value:
        head.best, head.best_value = stage.stack.parameters_of(place), value
        head.best_epoch, head.best_pass = head.done + epoch, epoch
    return Epoch(head.setting.number, head.done + epoch, loss, metrics, head.best_epoch)


def _reason(head: _Head, epoch: int, loss: float, is_stopped: bool, is_last: bool) -> Reason | None:
    """Why a head ends after a pass; None where it goes on."""
    if not math.isfinite(loss):
        return "diverged"
    if epoch == head.early_stop.epoch:
        return "given_epoch"
    if epoch - head.best_pass >= head.early_stop.patience:
        return "early_stop"
    return "stopped" if is_stopped else "all_epochs" if is_last else None
