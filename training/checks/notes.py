"""Notes on a run, before and after it is trained."""

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
    """Note options of a run that take another value than the one set, because of `rows` training rows.

    >>> notes_for(RunSpec.model_validate({"train": {"schedule": {"epochs": 10}}}), 640)
    ('train.schedule.epochs=10 becomes 100, because min_steps=1000 and 640 rows give 10 steps per epoch',)
    """
    if run.head.classifier.is_closed_form:
        return tuple(f"head.classifier.{note}" for note in run.head.classifier.notes_for(rows))
    first = run.train.schedule
    size = run.train.batch_rows
    notes = _raised_epochs("train.schedule.epochs", first, rows, size) if first.epochs != Schedule().epochs else ()
    notes += _too_late("train.early_stop.epoch", run.train.early_stop.epoch, first.epochs_for(rows, size))
    second, replacement = run.second.schedule(first), run.second.replacement
    if second is not None:
        notes += _raised_epochs("second.epochs", second, rows, second.batch_size)
        notes += _too_late("second.epoch", run.second.given_epoch, second.epochs_for(rows))
    if replacement is not None:
        notes += tuple(f"second.classifier.{note}" for note in replacement.notes_for(rows))
    return notes


def epoch_notes(run: RunSpec, labels: Tensor, background: Sequence[int] = ()) -> tuple[str, ...]:
    """Note how epochs are chosen on few validation rows with labels [M], if the run leaves the metric open.

    >>> epoch_notes(RunSpec(), torch.arange(8).repeat(5))[0].partition(":")[0]
    'the epoch with the lowest NLL on the 40 validation rows is kept'
    """
    stop = run.train.early_stop
    is_open = stop.metric == "auto" and stop.epoch is None and not run.head.classifier.is_closed_form
    if not is_open or len(labels) == 0 or epochs_metric(stop.metric, labels, background) != "nll":
        return ()
    rows = "only validation row" if len(labels) == 1 else f"{len(labels)} validation rows"
    return (
        f"the epoch with the lowest NLL on the {rows} is kept: below "
        f"{ENOUGH_ROWS_OF_A_CLASS} rows per class macro F1 is mostly noise",
    )


FALLS = 0.1
"""Smallest fall of the training loss that is noted, as a share, over the last quarter of the summed learning rate."""
GAP = 0.1
"""Smallest gap between mean confidence and accuracy that is noted; it must also be at least three standard errors."""


def falling_notes(run: RunSpec, losses: Sequence[float], kept: int) -> tuple[str, ...]:
    """Note a training loss that was still falling at the end of the schedule, from its epoch means and the kept epoch.

    Late steps of a cosine schedule are small, so epochs are weighted by their learning rates: the fall is measured from
    the third to the last quarter of the summed rates.

    >>> falling_notes(RunSpec(), [1 - k / 100 for k in range(50)], 50)
    ('the training loss still fell by 14% over the last quarter of the summed learning rate: train for more steps, or \
raise train.optim.lr',)
    >>> falling_notes(RunSpec(), [1 + 1 / (1 + k) for k in range(50)], 50)
    ()
    """
    epochs = len(losses)
    if run.head.classifier.is_closed_form or run.second.takes_steps or epochs < 8 or kept < 0.9 * epochs:
        return ()
    rates = torch.tensor([run.train.schedule.factor((k + 0.5) / epochs) for k in range(epochs)], dtype=torch.float64)
    path, values = rates.cumsum(0) / rates.sum(), torch.tensor(losses, dtype=torch.float64)
    before, after = (_weighted(values, rates, part) for part in ((path > 0.5) & (path <= 0.75), path > 0.75))
    if not before > 0 or 1 - after / before < FALLS:
        return ()
    return (
        f"the training loss still fell by {1 - after / before:.0%} over the last quarter of the summed learning rate: "
        "train for more steps, or raise train.optim.lr",
    )


def _weighted(values: Tensor, rates: Tensor, part: Tensor) -> float:
    return float((values * rates)[part].sum() / rates[part].sum())


def sureness_notes(confidence: Iterable[float], right: Iterable[bool]) -> tuple[str, ...]:
    """Note a mean confidence of evaluated rows that is far from their accuracy, both given row by row.

    >>> sureness_notes([0.05] * 50, [True] * 50)
    ('the mean confidence on the validation rows is 0.05 and the accuracy 1.00: the head is badly underconfident; \
set posthoc.calibration.kind=temperature',)
    """
    sure, hits = (torch.tensor(list(each), dtype=torch.float64) for each in (confidence, right))
    if len(sure) == 0:
        return ()
    gap = float(sure.mean() - hits.mean())
    noise = float((sure - hits).std(correction=0)) / len(sure) ** 0.5
    if not abs(gap) >= max(GAP, 3 * noise):
        return ()
    word = "overconfident" if gap > 0 else "underconfident"
    return (
        f"the mean confidence on the validation rows is {float(sure.mean()):.2f} and the accuracy "
        f"{float(hits.mean()):.2f}: the head is badly {word}; set posthoc.calibration.kind=temperature",
    )


def order_notes(run: RunSpec, labels: Tensor) -> tuple[str, ...]:
    """Note how well a run's shuffle buffer mixes training rows with labels [N], unless it holds all of them.

    >>> sampler = {"kind": "shuffled", "buffer_rows": 600, "block_rows": 200}
    >>> order_notes(RunSpec.model_validate({"train": {"sampler": sampler}}), torch.arange(10).repeat_interleave(600))
    ('train.sampler.buffer_rows=600 shuffles 10% of the training rows at a time, from as few as 3 of 10 classes',)
    """
    sampler, rows = run.train.sampler, len(labels)
    if run.head.classifier.is_closed_form or not isinstance(sampler, Shuffled) or sampler.buffer_rows is None:
        return ()
    if sampler.blocks_at_once(rows) * sampler.block_rows >= rows:
        return ()
    share = sampler.blocks_at_once(rows) * sampler.block_rows / rows
    buffers = sampler.buffers(torch.arange(rows), rows, generator(run.order, "order", 1))
    # The last buffer may hold a single block, so it is left out.
    pairs = torch.unique(buffers * (1 + int(labels.max())) + labels) // (1 + int(labels.max()))
    few, classes = int(torch.bincount(pairs)[: int(buffers.max())].min()), len(torch.unique(labels))
    note = f"train.sampler.buffer_rows={sampler.buffer_rows} shuffles {share:.0%} of the training rows at a time"
    return (note + (f", from as few as {few} of {classes} classes" if few < classes else ""),)


ENOUGH_ROWS = 1000
"""Number of rows below which a temperature is a safer calibration than one with more parameters."""


def posthoc_notes(run: RunSpec, labels: Tensor) -> tuple[str, ...]:
    """Note calibration and decisions that are fitted to too few rows, given the labels [N] of these rows.

    >>> run = RunSpec.model_validate({"posthoc": {"calibration": {"kind": "isotonic"}}})
    >>> posthoc_notes(run, torch.zeros(300, dtype=torch.int64))
    ('posthoc.calibration.kind=isotonic is fitted to 300 rows; below about 1000 a temperature is safer',)
    """
    spec, rows = run.posthoc, len(labels)
    noun, notes = "row" if rows == 1 else "rows", []
    if isinstance(spec.calibration, AutoTemperature) and rows < LEAST_ROWS:
        notes.append(
            f"no temperature is fitted, so probabilities stay uncalibrated: there {'is' if rows == 1 else 'are'} "
            f"only {rows} calibration and validation {noun}, and a temperature needs {LEAST_ROWS}"
        )
    if isinstance(spec.calibration, Vector | Matrix | Isotonic) and rows < ENOUGH_ROWS:
        notes.append(
            f"posthoc.calibration.kind={spec.calibration.kind} is fitted to {rows} {noun}; below about {ENOUGH_ROWS} "
            "a temperature is safer"
        )
    counts = torch.bincount(labels)
    counts = counts[counts > 0]
    if isinstance(spec.calibration, Matrix) and rows < len(counts) ** 2:
        notes.append(f"matrix calibration fits {len(counts) * (len(counts) + 1)} parameters to {rows} rows")
    if isinstance(spec.thresholds, CoordinateAscent) and (counts < spec.thresholds.shrink).any():
        few = int((counts < spec.thresholds.shrink).sum())
        notes.append(
            f"thresholds of {few} of {len(counts)} classes are tuned on fewer than {spec.thresholds.shrink:g} rows, so "
            "they are shrunk by more than half"
        )
    return tuple(notes)


def _too_late(option: str, epoch: int | None, last: int) -> tuple[str, ...]:
    """Note a given epoch that lies after the last epoch of training."""
    if epoch is None or epoch <= last:
        return ()
    return (f"{option}={epoch} becomes {last}, because training ends there",)


def _raised_epochs(option: str, schedule: Schedule, rows: int, size: int) -> tuple[str, ...]:
    """Note an epoch count that min_steps raises."""
    epochs = schedule.epochs_for(rows, size)
    if epochs == schedule.epochs:
        return ()
    note = f"{option}={schedule.epochs} becomes {epochs}, because min_steps={schedule.min_steps}"
    steps = -(-rows // size)
    return (f"{note} and {rows} rows give {steps} {'step' if steps == 1 else 'steps'} per epoch",)
