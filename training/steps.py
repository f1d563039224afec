"""A stage of gradient steps: passes over rows, the best of which is kept."""

import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.head import Head
from training.data import Data
from training.events import Epoch, Reason
from training.facts import Facts
from training.metrics import all_metrics
from training.optim import AdamW, Schedule, Sgd
from training.run import RunSpec

SECONDS_BETWEEN_QUESTIONS = 1.0
"""How often `stop` is asked within a pass; it is also asked after each."""


@dataclass(frozen=True)
class Setting:
    """What stays fixed through one run; order shuffles rows on the CPU, noise is drawn where the rows are."""

    number: int
    run: RunSpec
    data: Data
    columns: tuple[str, ...]
    background: tuple[int, ...]
    facts: Facts
    order: torch.Generator
    noise: torch.Generator
    began: float


@dataclass(frozen=True)
class Stage:
    """What one stage of gradient steps does.

    Attributes:
        name: option that holds the learning rate, for messages.
        module: what is trained.
        order: draws the row numbers of one pass.
        loss: the objective of a step's row numbers at a progress from 0 to 1.
        optim: how parameters are moved.
        schedule: for how long.
    """

    name: str
    module: nn.Module
    order: Callable[[], Tensor]
    loss: Callable[[Tensor, float], Tensor]
    optim: AdamW | Sgd
    schedule: Schedule


@dataclass(frozen=True)
class Kept:
    """How a stage ended: why, the epoch that was kept, and the last one that was done."""

    reason: Reason
    epoch: int
    last: int


def run_stage(
    setting: Setting, head: Head, stage: Stage, done: int, stop: Callable[[], bool]
) -> Generator[Epoch, None, Kept]:
    """Train by gradient steps after that many done epochs; head is left as it was after its best epoch.

    Raises:
        ValueError: the loss stops being finite before there is an epoch to keep.
    """
    early_stop = setting.run.train.early_stop
    optimiser = stage.optim.build(stage.module)
    best, best_value, best_epoch = _copy(head), float("-inf"), done
    reason: Reason = "all_epochs"
    last = done + stage.schedule.epochs_for(len(setting.data.train))
    for epoch in range(done + 1, last + 1):
        loss, is_cut = _epoch(setting, stage, optimiser, epoch - done, stop)
        if not math.isfinite(loss):
            reason = "diverged"
            break
        metrics = _selection_metrics(setting, head)
        value = _value(metrics, early_stop.metric)
        if value > best_value:
            best, best_value, best_epoch = _copy(head), value, epoch
        yield Epoch(setting.number, epoch, loss, metrics, best_epoch)
        if epoch - best_epoch >= early_stop.patience:
            reason = "early_stop"
            break
        if is_cut or (epoch < last and stop()):
            reason = "stopped"
            break
    if best_epoch == done:
        raise ValueError(
            f"training must keep a finite loss, however: it diverged in epoch {epoch}, before any was good enough to "
            f"keep. Lower {stage.name}, which is {stage.optim.lr:g}."
        )
    head.load_state_dict(best)
    return Kept(reason, best_epoch, epoch)


def _epoch(
    setting: Setting, stage: Stage, optimiser: torch.optim.Optimizer, epoch: int, stop: Callable[[], bool]
) -> tuple[float, bool]:
    """One pass, 1 for the stage's first: the mean objective of its steps, and whether it was cut short.

    Within a pass `stop` is asked once a second, so that a person who cancels a long one gets what it has learnt so far.
    """
    order = stage.order().to(setting.data.train.labels.device)
    batches = torch.split(order, stage.schedule.batch_size)
    total_steps = stage.schedule.epochs_for(len(order)) * len(batches)
    losses: list[Tensor] = []
    asked, is_cut = time.monotonic(), False
    stage.module.train()
    for step, batch in enumerate(batches, start=(epoch - 1) * len(batches)):
        for group in optimiser.param_groups:
            group["lr"] = stage.optim.lr * stage.schedule.factor((step + 1) / total_steps)
        loss = stage.loss(batch, step / total_steps)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(loss.detach())
        if time.monotonic() - asked > SECONDS_BETWEEN_QUESTIONS and len(losses) < len(batches):
            asked, is_cut = time.monotonic(), stop()
            if is_cut:
                break
    return float(torch.stack(losses).mean()), is_cut


@torch.no_grad()
def _selection_metrics(setting: Setting, head: Head) -> dict[str, float | None]:
    head.eval()
    part = setting.data.select
    logits = head(part.features(setting.columns))
    absent = setting.facts.counts == 0
    log_p = logits.masked_fill(absent, -torch.inf).log_softmax(1)
    return all_metrics(log_p.cpu(), part.labels.cpu(), setting.facts.counts.cpu(), setting.background)


def _value(metrics: dict[str, float | None], name: str) -> float:
    """The metric as a number to be raised."""
    found = metrics[name]
    if found is None:
        raise ValueError(
            f"training keeps the epoch with the best {name} of the selection rows, however: no selection row "
            "belongs to a class it counts. Choose another train.early_stop.metric, or a split with more selection rows."
        )
    return -found if name == "nll" else found


def _copy(head: Head) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in head.state_dict().items()}
