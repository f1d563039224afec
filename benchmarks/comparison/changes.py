"""In which options two runs differ, and what a run costs."""

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
        path: dotted, or a word for what is no option.
        before: its value in the other run, None where that has no such option.
        after: its value in this run.
        title: what it is called, empty where the path says it.
    """

    path: str
    before: str | None
    after: str
    title: str = ""


def option_changes(base: RunRecord, other: RunRecord) -> tuple[Change, ...]:
    """The options in which a run differs from the base; defaults of a changed `kind` are left out.

    An ensemble has no options of its own: where one is, only the members are told.
    """
    if base.members or other.members:
        return (Change("members", _members(base) if base.members else None, _members(other)),)
    before, now = leaves(base.full_spec), leaves(other.full_spec)
    named = leaves(base.spec) | leaves(other.spec)
    return tuple(
        Change(
            path,
            shown(before[path]) if path in before else None,
            shown(now[path]),
            label_of(RunSpec, path, other.full_spec),
        )
        for path in named
        if path in now and now[path] != before.get(path)
    )


def _members(run: RunRecord) -> str:
    return f"mean of {len(run.members)} runs: {', '.join(run.members)}" if run.members else "one run"


def data_changes(base: RunRecord, other: RunRecord) -> tuple[Change, ...]:
    """What differs between the data of two runs: the cache, where its content does, and the vector columns."""
    found, a, b = [], base.data, other.data
    if a.table != b.table:
        found.append(Change("cache", a.cache, b.cache))
    if a.columns != b.columns:
        found.append(Change("columns", ", ".join(a.columns), ", ".join(b.columns), label_of(RunSpec, "columns")))
    return tuple(found)


def head_parameters(store: Path, key: str) -> int | None:
    """How many numbers the body and the classifier of a run's head hold; None where no head is kept with the run.

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
            f"a run's head must be readable, however: {path} is not ({error}). Delete the run's folder and run again."
        ) from error
    return sum(_product(shape) for shape in shapes)


def _is_parameter(name: str) -> bool:
    return name.startswith(("head.body.", "head.classifier."))


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
