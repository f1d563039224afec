"""Checks of runs on training rows that stay on disk."""

from frostbench.training.data.part import Data
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled
from frostbench.training.sampling.oversample import NoOversample


def check_streams(run: RunSpec, data: Data) -> None:
    """Refuse a run that needs all training rows at once while they stay on disk.

    Raises:
        ValueError: options of the run need all rows; the message names these options.
    """
    tokens = [name for name in run.columns if len(data.train.shapes.get(name, ())) == 3]
    options = (*needs_all_rows(run), *(f"columns={name}" for name in tokens)) if data.train.is_stored else ()
    if options:
        raise ValueError(
            f"The training rows stay on disk, but {', '.join(options)} {'needs' if len(options) == 1 else 'need'} all "
            f"{len(data.train)} rows at once. Use options that read a buffer of them, such as "
            "train.sampler.buffer_rows=65536, or read the table into memory."
        )


def check_folds_stream(data: Data) -> None:
    """Refuse to cross-validate training rows that stay on disk.

    Raises:
        ValueError: the rows stay on disk.
    """
    if data.train.is_stored:
        raise ValueError(
            f"Cross-validation needs the training rows in memory, but the {len(data.train)} rows stay on disk. Use a "
            "split without folds, or read the table into memory."
        )


def needs_all_rows(run: RunSpec) -> tuple[str, ...]:
    """Return the settings of a run that need all training rows at once, as option=value or just option."""
    train, classifier = run.train, run.head.classifier
    options = [f"head.classifier.{option}"] if (option := classifier.reads_all_at_once) else []
    if run.second.needs_all_rows:
        options.append(f"second.kind={run.second.kind}")
    if run.view_sets:
        options.append("view_sets")
    if not isinstance(train.oversample, NoOversample):
        options.append(f"train.oversample.kind={train.oversample.kind}")
    options += [f"train.loss.{name}" for name, method in train.loss.trained.items() if "all_rows" in method.needs]
    if not isinstance(train.sampler, Shuffled):
        options.append(f"train.sampler.kind={train.sampler.kind}")
    elif train.sampler.buffer_rows is None and not classifier.is_closed_form:
        options.append("train.sampler.buffer_rows=null")
    return tuple(options)
