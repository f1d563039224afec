"""Two rounds of a tuned bench: settings are chosen with few seeds, and what wins is trained with all of them."""

from collections.abc import Mapping
from typing import Any

from frostbench.benchmarks.runs.tuning import Tuned
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.spec import Spec
from frostbench.training.run import RunSpec

SEEDS = 2
"""Seeds that a setting is judged by."""


def first_round(bench: BenchSpec) -> BenchSpec:
    """The bench with all settings of its rows and its first seeds."""
    return bench.model_copy(update={"seeds": bench.seeds[:SEEDS]})


def last_round(bench: BenchSpec, tuned: Mapping[str, Tuned]) -> BenchSpec:
    """The bench with all seeds and, of each row, the setting that won.

    What the base row's winner changes is stated again, with its own value, in every row that does not change it.
    A bench without tuning stays as it is.
    """
    if not tuned:
        return bench
    base = tuned[bench.preset].winner.changes
    toggles = {
        row: changes | {path: _value(tuned[row].winner.spec, path) for path in (*base, *tuned[row].winner.changes)}
        for row, changes in bench.toggles.items()
    }
    return bench.model_copy(update={"base": bench.base | base, "toggles": toggles, "tune": {}})


def _value(spec: RunSpec, path: str) -> Any:
    """The value of a dotted option."""
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value.model_dump(mode="json") if isinstance(value, Spec) else value
