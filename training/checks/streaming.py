"""Whether a run can be trained on rows that stay on disk; asked in one place."""

from frostbench.training.data.part import Data
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import Shuffled
from frostbench.training.sampling.oversample import NoOversample


def check_streams(run: RunSpec, data: Data) -> None:
    """Refuse a run that needs all training rows at once, where these stay on disk.

    Raises:
        ValueError: an option of the run does; the message names each of them.
    """
    tokens = [name for name in run.columns if len(data.train.shapes.get(name, ())) == 3]
    asked = (*needs_all_rows(run), *(f"columns={name}" for name in tokens)) if data.train.is_stored else ()
    if asked:
        raise ValueError(
            f"of training rows that stay on disk a buffer is in memory, however: {', '.join(asked)} "
            f"{'needs' if len(asked) == 1 else 'need'} all {len(data.train)} rows at once. Choose otherwise, as "
            "train.sampler.buffer_rows=65536 that shuffles within a buffer, or read the table into memory."
        )


def check_folds_stream(data: Data) -> None:
    """Refuse to cross-validate rows that stay on disk.

    Raises:
        ValueError: they do.
    """
    if data.train.is_stored:
        raise ValueError(
            f"folds take training rows by their numbers, however: the {len(data.train)} rows stay on disk. Cut the "
            "split without folds, or read the table into memory."
        )


def needs_all_rows(run: RunSpec) -> tuple[str, ...]:
    """The options of a run that need all training rows at once, as they are written."""
    train, classifier = run.train, run.head.classifier
    found = [f"head.classifier.{option}"] if (option := classifier.reads_all_at_once) else []
    if run.second.needs_all_rows:
        found.append(f"second.kind={run.second.kind}")
    if run.view_sets:
        found.append("view_sets")
    if not isinstance(train.oversample, NoOversample):
        found.append(f"train.oversample.kind={train.oversample.kind}")
    found += [f"train.loss.{name}" for name, method in train.loss.trained.items() if "all_rows" in method.needs]
    if not isinstance(train.sampler, Shuffled):
        found.append(f"train.sampler.kind={train.sampler.kind}")
    elif train.sampler.buffer_rows is None and not classifier.is_closed_form:
        found.append("train.sampler.buffer_rows=null")
    return tuple(found)
