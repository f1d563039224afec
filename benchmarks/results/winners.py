"""Two rounds of a tuned bench: choose settings with few seeds, then train the winners with all seeds."""

from collections.abc import Mapping
from typing import Any

from frostbench.benchmarks.runs.tuning import Tuned
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.spec import Spec
from frostbench.training.run import RunSpec

SEEDS = 2
"""Number of seeds in the first round."""


def first_round(bench: BenchSpec) -> BenchSpec:
    """Return the bench with all settings of its rows but only its first seeds."""
    return bench.model_copy(update={"seeds": bench.seeds[:SEEDS]})


def last_round(bench: BenchSpec, tuned: Mapping[str, Tuned]) -> BenchSpec:
    """Return the bench with all seeds and only the winning setting of each row.

    Options that the base row's winner changes are set in every other row to that row's own value, since the base
    applies to all rows. A bench without tuning is returned unchanged.
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
    value: Any = spec
    for name in path.split("."):
        value = getattr(value, name)
    return value.model_dump(mode="json") if isinstance(value, Spec) else value
