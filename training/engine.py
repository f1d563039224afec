"""The engine: runs and data in, events out; the last event of each run holds its head."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heads.head import Head
from heads.logreg import LogisticRegression
from heads.trained import TrainedHead
from training.checks import background_of, check_data, columns_of
from training.data import Data
from training.events import Event, Finished, Reason, Started
from training.facts import Facts, facts_of
from training.finish import trained
from training.losses.loss import LossSpec, objective
from training.run import RunSpec
from training.second import Crt
from training.stages import SECOND_LOSS, first_stage, second_facts, second_stage
from training.steps import Setting, run_stage

ENGINE_VERSION = 1
"""Part of every run key; raised when a change here changes what a run returns."""


def never() -> bool:
    """A stop question that is always answered with no."""
    return False


def fit(runs: Sequence[RunSpec], data: Data, stop: Callable[[], bool] = never) -> Iterator[Event]:
    """Train runs on data, one after the other, and yield what happens.

    The same runs, data, thread count and machine give the same heads bit for bit on the CPU. `stop` is asked after
    every epoch and before a second stage; a stopped run still returns the best head of the stage it was in, and later
    runs are not begun.

    A run whose loss stops being finite ends there and returns the best epoch of that stage.

    Raises:
        ValueError: a run cannot be trained on data (see `training.checks`), or diverged before its first epoch ended.
    """
    check_data(runs, data)
    for number, run in enumerate(runs):
        yield from _fit_one(number, run, data, stop)
        if stop():
            return


def _fit_one(number: int, run: RunSpec, data: Data, stop: Callable[[], bool]) -> Iterator[Event]:
    columns, background = columns_of(run, data), background_of(run, data)
    facts = facts_of(data.train.labels, len(data.class_names), run.train.loss.class_weight)
    x = data.train.features(columns)
    order, noise = torch.Generator().manual_seed(run.seed), torch.Generator(x.device).manual_seed(run.seed)
    setting = Setting(number, run, data, columns, background, facts, order, noise, time.perf_counter())
    head = run.head.build(x.cpu(), len(data.class_names), order).to(x.device)
    if isinstance(run.head.classifier, LogisticRegression):
        yield Started(number, 0)
        yield _solve(setting, head, run.head.classifier, x)
    else:
        yield Started(number, run.epochs_for(len(x)))
        yield from _step(setting, head, x, stop)


def _solve(setting: Setting, head: Head, classifier: LogisticRegression, x: Tensor) -> Finished:
    """Solve the classifier in float64 on the standardised vectors."""
    with torch.no_grad():
        hidden = head.hidden(x)
    labels, facts, loss = setting.data.train.labels, setting.facts, setting.run.train.loss
    found = classifier.solve(hidden, lambda z: objective(loss, z, labels, facts, 1.0), len(setting.data.class_names))
    with torch.no_grad():
        head.classifier.weight.copy_(found.weight)
        head.classifier.bias.copy_(found.bias)
    reason: Reason = "solved" if found.gradient_norm <= classifier.tolerance else "not_converged"
    result = _trained(setting, head, loss, facts)
    return Finished(setting.number, result, reason, 0, _seconds(setting), found.gradient_norm)


def _step(setting: Setting, head: Head, x: Tensor, stop: Callable[[], bool]) -> Iterator[Event]:
    """Train by gradient steps, in one stage or two; of each the best epoch is kept."""
    loss, facts, second = setting.run.train.loss, setting.facts, setting.run.second
    kept = yield from run_stage(setting, head, first_stage(setting, head, x), 0, stop)
    if isinstance(second, Crt) and kept.reason in ("all_epochs", "early_stop"):
        if stop():
            kept = replace(kept, reason="stopped")
        else:
            stage = second_stage(setting, head, x, second)
            kept = yield from run_stage(setting, head, stage, kept.last, stop)
            loss, facts = SECOND_LOSS, second_facts(setting.facts, second)
    yield Finished(setting.number, _trained(setting, head, loss, facts), kept.reason, kept.epoch, _seconds(setting))


def _trained(setting: Setting, head: Head, loss: LossSpec, facts: Facts) -> TrainedHead:
    return trained(setting.run, head, setting.columns, setting.data, loss, facts)


def _seconds(setting: Setting) -> float:
    return time.perf_counter() - setting.began
