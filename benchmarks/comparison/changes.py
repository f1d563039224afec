"""Options in which two runs differ, and the size of a run's head."""

import math
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, run_folder
from frostbench.benchmarks.settings.options import shown
from frostbench.benchmarks.settings.parsing import leaves
from frostbench.heads.titles import label_of
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class Change:
    """An option in which a run differs from another.

    Attributes:
        path: dotted path of the option, or a word for a difference in the data.
        before: value in the base run, or None if it has no such option.
        after: value in this run.
        title: title of the option; empty if the path is clear enough.
    """

    path: str
    before: str | None
    after: str
    title: str = ""


def option_changes(base: RunRecord, other: RunRecord) -> tuple[Change, ...]:
    """Return the options in which a run differs from the base, without the defaults of a changed `kind`.

    An ensemble has no options of its own: if either run is one, only the members are reported.
    """
    if base.members or other.members:
        return (Change("members", _members(base) if base.members else None, _members(other)),)
    before, after = leaves(base.full_spec), leaves(other.full_spec)
    named = leaves(base.spec) | leaves(other.spec)
    return tuple(
        Change(
            path,
            shown(before[path]) if path in before else None,
            shown(after[path]),
            label_of(RunSpec, path, other.full_spec),
        )
        for path in named
        if path in after and after[path] != before.get(path)
    )


def _members(run: RunRecord) -> str:
    return f"mean of {len(run.members)} runs: {', '.join(run.members)}" if run.members else "one run"


def data_changes(base: RunRecord, other: RunRecord) -> tuple[Change, ...]:
    """Return the differences between two runs' data: the cache, if its content differs, and the vector columns."""
    changes, a, b = [], base.data, other.data
    if a.table != b.table:
        changes.append(Change("cache", a.cache, b.cache))
    if a.columns != b.columns:
        changes.append(Change("columns", ", ".join(a.columns), ", ".join(b.columns), label_of(RunSpec, "columns")))
    return tuple(changes)


def head_parameters(store: Path, key: str) -> int | None:
    """Count the parameters in the body and classifier of a run's head; None if no head is stored with the run.

    Raises:
        StoreError: the head cannot be read.
    """
    path = run_folder(store, key) / "head" / "head.safetensors"
    if not path.is_file():
        return None
    try:
        with safe_open(path, "numpy") as tensors:
            names = [name for name in tensors.keys() if _is_parameter(name)]  # noqa: SIM118 (it is no dict)
            shapes = [tensors.get_slice(name).get_shape() for name in names]
    except (OSError, SafetensorError) as error:
        raise StoreError(
            f"The run's head {path} cannot be read ({error}). Delete the run's folder and run the bench again."
        ) from error
    return sum(int(math.prod(shape)) for shape in shapes)


def _is_parameter(name: str) -> bool:
    return name.startswith(("head.body.", "head.classifier."))
