"""What is to be said about a run before it is trained."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.auto import LEAST_ROWS, AutoTemperature
from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.vector import Vector
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent
from frostbench.training.checks.metrics import ENOUGH_ROWS_OF_A_CLASS, epochs_metric
from frostbench.training.data.randomness import generator
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled
from frostbench.training.spec.optim import Schedule


def notes_for(run: RunSpec, rows: int) -> tuple[str, ...]:
    """What is to be said about a run on that many training rows.

    >>> notes_for(RunSpec.model_validate({"train": {"schedule": {"epochs": 10}}}), 640)
    ('train.schedule.epochs=10 becomes 100, for min_steps asks for 1000 steps and 640 rows give 10 an epoch',)
    """
    if run.head.classifier.is_closed_form:
        return tuple(f"head.classifier.{note}" for note in run.head.classifier.notes_for(rows))
    first = run.train.schedule
    size = run.train.batch_rows
    found = _overruled("train.schedule.epochs", first, rows, size) if first.epochs != Schedule().epochs else ()
    found += _too_late("train.early_stop.epoch", run.train.early_stop.epoch, first.epochs_for(rows, size))
    second, replacement = run.second.schedule(first), run.second.replacement
    if second is not None:
        found += _overruled("second.epochs", second, rows, second.batch_size)
        found += _too_late("second.epoch", run.second.given_epoch, second.epochs_for(rows))
    if replacement is not None:
        found += tuple(f"second.classifier.{note}" for note in replacement.notes_for(rows))
    return found


def epoch_notes(run: RunSpec, labels: Tensor, background: Sequence[int] = ()) -> tuple[str, ...]:
    """How a run's epochs are chosen on rows with labels [M], where the run leaves it open and they are few.

    >>> epoch_notes(RunSpec(), torch.arange(8).repeat(5))
    ('the epoch with the lowest NLL on the 40 selection rows is kept: below 50 rows a class macro F1 is mostly noise',)
    """
    stop = run.train.early_stop
    is_open = stop.metric == "auto" and stop.epoch is None and not run.head.classifier.is_closed_form
    if not is_open or len(labels) == 0 or epochs_metric(stop.metric, labels, background) != "nll":
        return ()
    return (
        f"the epoch with the lowest NLL on the {len(labels)} selection rows is kept: below "
        f"{ENOUGH_ROWS_OF_A_CLASS} rows a class macro F1 is mostly noise",
    )


FALLS = 0.1
"""Share of the training loss that a quarter of the rate's path may still bring down at the end."""
GAP = 0.1
"""Difference of mean confidence and accuracy from which it is told, where it is three standard errors as well."""


def falling_notes(run: RunSpec, losses: Sequence[float], kept: int) -> tuple[str, ...]:
    """That the training loss still fell when the schedule ended, from its means over epochs and the kept epoch.

    Steps late in a cosine are short, so epochs are weighed by their rates: the fall is that from the third quarter of
    the sum of all rates to the last.

    >>> falling_notes(RunSpec(), [1 - k / 100 for k in range(50)], 50)
    ('the training loss still fell by 14% over the last quarter of the learning rate: train for more steps, or raise \
train.optim.lr',)
    >>> falling_notes(RunSpec(), [1 + 1 / (1 + k) for k in range(50)], 50)
    ()
    """
    epochs = len(losses)
    if run.head.classifier.is_closed_form or run.second.takes_steps or epochs < 8 or kept < 0.9 * epochs:
        return ()
    rates = torch.tensor([run.train.schedule.factor((k + 0.5) / epochs) for k in range(epochs)], dtype=torch.float64)
    path, values = rates.cumsum(0) / rates.sum(), torch.tensor(losses, dtype=torch.float64)
    before, after = (_weighed(values, rates, part) for part in ((path > 0.5) & (path <= 0.75), path > 0.75))
    if not before > 0 or 1 - after / before < FALLS:
        return ()
    return (
        f"the training loss still fell by {1 - after / before:.0%} over the last quarter of the learning rate: train "
        "for more steps, or raise train.optim.lr",
    )


def _weighed(values: Tensor, rates: Tensor, part: Tensor) -> float:
    return float((values * rates)[part].sum() / rates[part].sum())


def sureness_notes(confidence: Iterable[float], right: Iterable[bool]) -> tuple[str, ...]:
    """That the mean confidence of judged rows is far from their accuracy, both given row by row.

    >>> sureness_notes([0.05] * 50, [True] * 50)
    ('the mean confidence on the selection rows is 0.05 and the accuracy 1.00: probabilities are far too unsure; \
posthoc.calibration.kind=temperature mends that',)
    """
    sure, hits = (torch.tensor(list(each), dtype=torch.float64) for each in (confidence, right))
    if len(sure) == 0:
        return ()
    gap = float(sure.mean() - hits.mean())
    noise = float((sure - hits).std(correction=0)) / len(sure) ** 0.5
    if not abs(gap) >= max(GAP, 3 * noise):
        return ()
    word = "sure" if gap > 0 else "unsure"
    return (
        f"the mean confidence on the selection rows is {float(sure.mean()):.2f} and the accuracy "
        f"{float(hits.mean()):.2f}: probabilities are far too {word}; posthoc.calibration.kind=temperature mends that",
    )


def order_notes(run: RunSpec, labels: Tensor) -> tuple[str, ...]:
    """How well a run's buffer mixes training rows with labels [N], where it does not hold all of them.

    >>> sampler = {"kind": "shuffled", "buffer_rows": 600, "block_rows": 200}
    >>> order_notes(RunSpec.model_validate({"train": {"sampler": sampler}}), torch.arange(10).repeat_interleave(600))
    ('train.sampler.buffer_rows=600 mixes 10% of the training rows at a time, of as few as 3 of their 10 classes',)
    """
    sampler, rows = run.train.sampler, len(labels)
    if run.head.classifier.is_closed_form or not isinstance(sampler, Shuffled) or sampler.buffer_rows is None:
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


ENOUGH_ROWS = 1000
"""Rows below which a temperature is the safer calibration."""


def posthoc_notes(run: RunSpec, labels: Tensor) -> tuple[str, ...]:
    """What is to be said about calibration and decisions fitted to rows with labels [N].

    >>> run = RunSpec.model_validate({"posthoc": {"calibration": {"kind": "isotonic"}}})
    >>> posthoc_notes(run, torch.zeros(300, dtype=torch.int64))
    ('posthoc.calibration.kind=isotonic is fitted to 300 rows; below about 1000 a temperature is the safer choice',)
    """
    spec, rows = run.posthoc, len(labels)
    found = []
    if isinstance(spec.calibration, AutoTemperature) and rows < LEAST_ROWS:
        found.append(
            f"no temperature is fitted, so probabilities are as training left them: there are {rows} calibration and "
            f"selection rows for it, and below {LEAST_ROWS} it would be a guess"
        )
    if isinstance(spec.calibration, Vector | Matrix | Isotonic) and rows < ENOUGH_ROWS:
        found.append(
            f"posthoc.calibration.kind={spec.calibration.kind} is fitted to {rows} rows; below about {ENOUGH_ROWS} a "
            "temperature is the safer choice"
        )
    counts = torch.bincount(labels)
    counts = counts[counts > 0]
    if isinstance(spec.calibration, Matrix) and rows < len(counts) ** 2:
        found.append(f"matrix calibration fits {len(counts) * (len(counts) + 1)} numbers to {rows} rows")
    if isinstance(spec.thresholds, CoordinateAscent) and (counts < spec.thresholds.shrink).any():
        few = int((counts < spec.thresholds.shrink).sum())
        found.append(
            f"thresholds of {few} of {len(counts)} classes rest on fewer than {spec.thresholds.shrink:g} rows, and go "
            "less than half of the way"
        )
    return tuple(found)


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
