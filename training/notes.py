"""What is to be said about a run before it is trained."""

from heads.head import Closed
from heads.knn import Neighbours
from training.optim import Schedule
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
