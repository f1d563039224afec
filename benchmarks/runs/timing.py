"""Estimates how long a stack trains, from a few epochs on a few of its rows."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from frostbench.training.data.few_shot import few_shot, read_rows
from frostbench.training.data.part import Data, Part
from frostbench.training.data.view_rows import stepped_rows
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import EarlyStop

EPOCHS = 3
"""Epochs of a timed stage; the first is not counted."""
FEW, MANY = 8, 24
"""Steps per epoch of the two timings, from which the time of a step and of an evaluation follow."""
SOLVED_ROWS = 4096
"""Rows on which a closed-form classifier is timed."""


@dataclass(frozen=True)
class Timed:
    """One timed fit: seconds before the first epoch, per epoch of each stage, and after the last one."""

    start: float
    stages: tuple[float, ...]
    end: float


def seconds_of(runs: Sequence[RunSpec], data: Data) -> float:
    """Estimate the seconds that a stack takes on data if none of its heads stops early.

    Gradient steps are timed on two subsets of the rows; time is linear in the number of steps and epochs. Closed-form
    classifiers are timed on a subset and scaled by the number of rows.

    Args:
        runs: runs of one stack.
        data: data of the stack, in memory.
    """
    run, data = runs[0], few_shot(runs[0], data)
    if run.head.classifier.is_closed_form:
        part = subset(data, SOLVED_ROWS)
        timed = _timed([_bare(run) for run in runs], part)
        return (timed.start + timed.end) * len(data.train) / len(part.train)
    rows, batch = stepped_rows(run, data), run.train.batch_rows
    parts = [subset(data, count * batch) for count in (FEW, MANY)]
    timings = [_timed([shortened(run) for run in runs], part) for part in parts]
    steps = [math.ceil(len(part.train) / batch) for part in parts]
    total = max(timed.start for timed in timings) + timings[1].end
    epochs = (run.train.epochs_for(rows), run.second.epochs_for(run.train.schedule, rows))
    for count, few, many in zip(epochs, *(timed.stages for timed in timings), strict=False):
        total += count * _extended((steps[0], few), (steps[1], many), math.ceil(rows / batch))
    return total


def _extended(few: tuple[int, float], many: tuple[int, float], steps: int) -> float:
    """Extend the line through two timings, each (steps, seconds of an epoch), to the steps of a whole epoch.

    >>> _extended((8, 1.0), (24, 2.0), 40)
    3.0
    """
    if many[0] == few[0]:
        return many[1] * max(1.0, steps / many[0])
    per_step = max(0.0, (many[1] - few[1]) / (many[0] - few[0]))
    return many[1] + per_step * max(0, steps - many[0])


def _bare(run: RunSpec) -> RunSpec:
    """Return the run without view sets, which the subsets of the rows lack."""
    return run.model_copy(update={"view_sets": (), "tta": ()})


def shortened(run: RunSpec) -> RunSpec:
    """Return the run with a few epochs per stage, before which it does not end, and without view sets."""
    schedule = run.train.schedule.model_copy(update={"epochs": EPOCHS, "min_steps": 0})
    stop = EarlyStop(metric=run.train.early_stop.metric, patience=1000)
    train = run.train.model_copy(update={"schedule": schedule, "early_stop": stop})
    second = run.second
    if second.takes_steps:
        second = second.model_copy(update={"epochs": EPOCHS, "epoch": None})
    return _bare(run).model_copy(update={"train": train, "second": second})


def _timed(runs: Sequence[RunSpec], data: Data) -> Timed:
    """Train runs and time them."""
    ends: dict[int, float] = {}
    began = last = time.perf_counter()
    for event in fit(runs, data, is_checked=True):
        last = time.perf_counter()
        if isinstance(event, Epoch):
            ends[event.epoch] = last
        elif isinstance(event, Finished) and not ends:
            ends[0] = last
    times = [ends[epoch] for epoch in sorted(ends)]
    if len(times) < EPOCHS:
        return Timed(times[-1] - began if times else 0.0, (), last - times[-1] if times else 0.0)
    stages = tuple(
        (times[start + EPOCHS - 1] - times[start]) / (EPOCHS - 1) for start in range(0, len(times) - EPOCHS + 1, EPOCHS)
    )
    return Timed(max(0.0, times[0] - began - stages[0]), stages, last - times[-1])


def subset(data: Data, count: int) -> Data:
    """Return data with `count` training rows that contain every class, and the views of these rows left out."""
    labels = data.train.labels
    if count >= len(labels):
        return data if len(data.select) else replace(data, select=data.train, calibrate=data.train)
    rows = _spread(labels, count)
    train = _rows(data.train, rows)
    # In a split into folds there are no validation rows; held-out rows are about a fold.
    select = data.select if len(data.select) else train
    return replace(data, train=train, select=select, views={})


def _spread(labels: Tensor, count: int) -> Tensor:
    """Return the first row of each class and evenly spaced other rows, int64 in ascending order."""
    chosen = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    for label in torch.bincount(labels).nonzero().squeeze(1).tolist():
        chosen[int((labels == label).nonzero()[0])] = True
    others = max(count - int(chosen.sum()), 1)
    chosen[torch.linspace(0, len(labels) - 1, others, device=labels.device).long()] = True
    return chosen.nonzero().squeeze(1)


def _rows(part: Part, rows: Tensor) -> Part:
    return Part(
        read_rows(part.stored, rows) if part.is_stored else {name: x[rows] for name, x in part.columns.items()},
        part.labels[rows],
        None if part.groups is None else part.groups[rows],
        images=None if part.images is None else part.images[rows],
    )
