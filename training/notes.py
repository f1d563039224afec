"""What is to be said about a run before it is trained."""

import torch
from torch import Tensor

from heads.head import Closed
from heads.knn import Neighbours
from training.batches import Shuffled
from training.optim import Schedule
from training.randomness import generator
from training.run import RunSpec
from training.second import Crt, Lws, Refit


def notes_for(run: RunSpec, rows: int) -> tuple[str, ...]:
    """What is to be said about a run on that many training rows.

    >>> notes_for(RunSpec.model_validate({"train": {"schedule": {"epochs": 10}}}), 640)
    ('train.schedule.epochs=10 becomes 100, for min_steps asks for 1000 steps and 640 rows give 10 an epoch',)
    """
    if isinstance(run.head.classifier, Closed):
        return _too_few("head.classifier.k", run.head.classifier, rows)
    first = run.train.schedule
    size = run.train.batch_rows
    found = _overruled("train.schedule.epochs", first, rows, size) if first.epochs != Schedule().epochs else ()
    found += _too_late("train.early_stop.epoch", run.train.early_stop.epoch, first.epochs_for(rows, size))
    if isinstance(run.second, Crt | Lws):
        second = run.second.schedule(first)
        found += _overruled("second.epochs", second, rows, second.batch_size)
        found += _too_late("second.epoch", run.second.epoch, second.epochs_for(rows))
    if isinstance(run.second, Refit):
        found += _too_few("second.classifier.k", run.second.classifier, rows)
    return found


def order_notes(run: RunSpec, labels: Tensor) -> tuple[str, ...]:
    """How well a run's buffer mixes training rows with labels [N], where it does not hold all of them.

    >>> sampler = {"kind": "shuffled", "buffer_rows": 600, "block_rows": 200}
    >>> order_notes(RunSpec.model_validate({"train": {"sampler": sampler}}), torch.arange(10).repeat_interleave(600))
    ('train.sampler.buffer_rows=600 mixes 10% of the training rows at a time, of as few as 3 of their 10 classes',)
    """
    sampler, rows = run.train.sampler, len(labels)
    if isinstance(run.head.classifier, Closed) or not isinstance(sampler, Shuffled) or sampler.buffer_rows is None:
        return ()
    if sampler.blocks_at_once(rows) * sampler.block_rows >= rows:
        return ()
    share = sampler.blocks_at_once(rows) * sampler.block_rows / rows
    buffers = sampler.buffers(torch.arange(rows), rows, generator(run.order, "order", 1))
    # The last buffer may hold one block alone, which says little.
    pairs = torch.unique(buffers * (1 + int(labels.max())) + labels) // (1 + int(labels.max()))
    few, classes = int(torch.bincount(pairs)[: int(buffers.max())].min()), len(torch.unique(labels))
    told = f"train.sampler.buffer_rows={sampler.buffer_rows} mixes {share:.0%} of the training rows at a time"
    return (told + (f", of as few as {few} of their {classes} classes" if few < classes else ""),)


def _too_few(option: str, classifier: Closed, rows: int) -> tuple[str, ...]:
    """That fewer rows vote than knn asks for, where it does."""
    if not isinstance(classifier, Neighbours) or classifier.k <= rows:
        return ()
    return (f"{option}={classifier.k} becomes {rows}, for there are no more training rows",)


def _too_late(option: str, epoch: int | None, last: int) -> tuple[str, ...]:
    """That the epoch to keep comes after the last one, where it does."""
    if epoch is None or epoch <= last:
        return ()
    return (f"{option}={epoch} becomes {last}, for training ends there",)


def _overruled(option: str, schedule: Schedule, rows: int, size: int) -> tuple[str, ...]:
    """That min_steps asks for more epochs than were stated, where it does."""
    epochs = schedule.epochs_for(rows, size)
    if epochs == schedule.epochs:
        return ()
    told = f"{option}={schedule.epochs} becomes {epochs}, for min_steps asks for {schedule.min_steps} steps"
    return (f"{told} and {rows} rows give {-(-rows // size)} an epoch",)
