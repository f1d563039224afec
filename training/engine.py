"""The engine: runs and data in, events out; the last event of each run holds its head."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heads.head import Head
from heads.logreg import LogisticRegression
from training.checks import background_of, check_data, columns_of
from training.data import Data
from training.events import Epoch, Event, Finished, Reason, Started
from training.facts import Facts, facts_of
from training.finish import trained
from training.losses.loss import objective
from training.metrics import all_metrics
from training.run import RunSpec

ENGINE_VERSION = 1
"""Part of every run key; raised when a change here changes what a run returns."""


def never() -> bool:
    """A stop question that is always answered with no."""
    return False


def fit(runs: Sequence[RunSpec], data: Data, stop: Callable[[], bool] = never) -> Iterator[Event]:
    """Train runs on data, one after the other, and yield what happens.

    The same runs, data, thread count and machine give the same heads bit for bit on the CPU. `stop` is asked after
    every epoch; a stopped run still returns its best head, and later runs are not begun.

    A run whose loss stops being finite ends there and returns the best epoch before.

    Raises:
        ValueError: a run cannot be trained on data (see `training.checks`), or diverged before its first epoch ended.
    """
    check_data(runs, data)
    for number, run in enumerate(runs):
        yield from _fit_one(number, run, data, stop)
        if stop():
            return


@dataclass(frozen=True)
class _Setting:
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


def _fit_one(number: int, run: RunSpec, data: Data, stop: Callable[[], bool]) -> Iterator[Event]:
    columns, background = columns_of(run, data), background_of(run, data)
    facts = facts_of(data.train.labels, len(data.class_names), run.train.loss.class_weight)
    x = data.train.features(columns)
    order, noise = torch.Generator().manual_seed(run.seed), torch.Generator(x.device).manual_seed(run.seed)
    setting = _Setting(number, run, data, columns, background, facts, order, noise, time.perf_counter())
    head = run.head.build(x.cpu(), len(data.class_names), order).to(x.device)
    if isinstance(run.head.classifier, LogisticRegression):
        yield Started(number, 0)
        yield _solve(setting, head, run.head.classifier, x)
    else:
        yield Started(number, run.train.schedule.epochs_for(len(x)))
        yield from _step(setting, head, x, stop)


def _solve(setting: _Setting, head: Head, classifier: LogisticRegression, x: Tensor) -> Finished:
    """Solve the classifier in float64 on the standardised vectors."""
    with torch.no_grad():
        hidden = head.hidden(x)
    labels, facts, loss = setting.data.train.labels, setting.facts, setting.run.train.loss
    found = classifier.solve(hidden, lambda z: objective(loss, z, labels, facts, 1.0), len(setting.data.class_names))
    with torch.no_grad():
        head.classifier.weight.copy_(found.weight)
        head.classifier.bias.copy_(found.bias)
    reason: Reason = "solved" if found.gradient_norm <= classifier.tolerance else "not_converged"
    return _finished(setting, head, reason, 0, found.gradient_norm)


def _step(setting: _Setting, head: Head, x: Tensor, stop: Callable[[], bool]) -> Iterator[Event]:
    """Train by gradient steps, keeping the best epoch."""
    stage = setting.run.train
    optimiser = stage.optim.build(head)
    best, best_value, best_epoch = _copy(head), float("-inf"), 0
    reason: Reason = "all_epochs"
    epochs = stage.schedule.epochs_for(len(x))
    for epoch in range(1, epochs + 1):
        loss = _epoch(setting, head, x, optimiser, epoch)
        if not math.isfinite(loss):
            reason = "diverged"
            break
        metrics = _selection_metrics(setting, head)
        value = _value(metrics, stage.early_stop.metric)
        if value > best_value:
            best, best_value, best_epoch = _copy(head), value, epoch
        yield Epoch(setting.number, epoch, loss, metrics, best_epoch)
        if epoch - best_epoch >= stage.early_stop.patience:
            reason = "early_stop"
            break
        if epoch < epochs and stop():
            reason = "stopped"
            break
    if best_epoch == 0:
        raise ValueError(
            f"training must keep a finite loss, however: it diverged in epoch {epoch}, before any was good enough to "
            f"keep. Lower train.optim.lr, which is {stage.optim.lr:g}."
        )
    head.load_state_dict(best)
    yield _finished(setting, head, reason, best_epoch, None)


def _epoch(setting: _Setting, head: Head, x: Tensor, optimiser: torch.optim.Optimizer, epoch: int) -> float:
    """One pass over the training rows; the mean objective of its steps."""
    stage, labels = setting.run.train, setting.data.train.labels
    order = torch.randperm(len(labels), generator=setting.order).to(x.device)
    batches = torch.split(order, stage.schedule.batch_size)
    total_steps = stage.schedule.epochs_for(len(x)) * len(batches)
    losses = []
    head.train()
    for step, batch in enumerate(batches, start=(epoch - 1) * len(batches)):
        for group in optimiser.param_groups:
            group["lr"] = stage.optim.lr * stage.schedule.factor((step + 1) / total_steps)
        logits = head(x[batch], setting.noise)
        loss = objective(stage.loss, logits, labels[batch], setting.facts, step / total_steps)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


@torch.no_grad()
def _selection_metrics(setting: _Setting, head: Head) -> dict[str, float | None]:
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


def _finished(setting: _Setting, head: Head, reason: Reason, epoch: int, norm: float | None) -> Finished:
    result = trained(setting.run, head, setting.columns, setting.data, setting.facts)
    return Finished(setting.number, result, reason, epoch, time.perf_counter() - setting.began, norm)
