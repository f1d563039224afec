"""Equal tuning budgets: the winner among the settings of a row, by the selection rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from annotated_types import Ge, Le

from frostbench.benchmarks.runs.failures import failure_of
from frostbench.benchmarks.runs.keys import bench_rows, ensemble_keys
from frostbench.benchmarks.runs.store import StoreError, is_finished, read_record, require_runs
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import FALLING, BenchSpec, Row, TuneMetric, expand
from frostbench.heads.spec import Spec
from frostbench.training.metrics.classification import NOTHING, Preference, preferred
from frostbench.training.run import RunSpec

NAMES: Mapping[TuneMetric, str] = MappingProxyType(
    {
        "macro_f1_fg": "macro F1",
        "balanced_accuracy": "balanced accuracy",
        "accuracy": "accuracy",
        "nll": "NLL",
        "brier": "Brier score",
    }
)
"""What settings win by, in words."""


@dataclass(frozen=True)
class Tried:
    """One setting of a row, trained with every seed.

    Attributes:
        name: what it is called, such as `lr=0.01, margin=0.3`; empty for a row that is not tuned.
        changes: what it changes of the row, by dotted option.
        spec: the run of its first seed.
        keys: its runs, one per seed.
        value: mean over the seeds of what settings win by, on the selection rows; None where it cannot win.
        problem: why it cannot; empty where it can.
        nll: mean over the seeds of the NLL there, which decides between equals; None where it is not known.
    """

    name: str
    changes: dict[str, Any]
    spec: RunSpec
    keys: tuple[str, ...]
    value: float | None
    problem: str
    nll: float | None = None

    def preference(self, by: TuneMetric) -> Preference:
        """What it wins by where settings win by that metric; of equals the one with the lower NLL wins."""
        if self.value is None:
            return NOTHING
        return preferred(-self.value if by in FALLING else self.value, self.nll)


@dataclass(frozen=True)
class Tuned:
    """What became of the settings of a row.

    Attributes:
        tried: its settings, as listed.
        winner: the one with the best value; of equals the one with the lowest NLL, and then the first listed.
        edges: where the winner has the smallest or largest of the values tried, in words; a better one may lie beyond.
            Empty where all settings are equally good.
        by: the metric that they win by.
    """

    tried: tuple[Tried, ...]
    winner: Tried
    edges: tuple[str, ...]
    by: TuneMetric = "macro_f1_fg"

    @property
    def was_chosen(self) -> bool:
        """Whether there was more than one setting to choose from."""
        return len(self.tried) > 1

    @property
    def is_tied(self) -> bool:
        """Whether several settings all have the same value and NLL, as where nothing reads what they change."""
        return self.was_chosen and len({(one.value, one.nll) for one in self.tried}) == 1


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a bench on one cache, each with the runs that stand for it.

    Attributes:
        cache: folder of the cache.
        rows: row name to its run keys, one per seed; of a tuned row, those of its winner. The first row is the base,
            and ensembles come last, with keys of their own.
        tuned: row name to what became of its settings; empty where the bench does not tune.
    """

    cache: str
    rows: dict[str, tuple[str, ...]]
    tuned: dict[str, Tuned]


def chosen_rows(bench: BenchSpec, only: Sequence[str] | None = None) -> tuple[ChosenRows, ...]:
    """The rows of a bench on each of its caches; where it tunes them, each by the setting that won on that cache.

    A setting wins by the bench's `tune_by` on selection rows, or on held-out rows after cross-validation. Test rows
    choose nothing.

    Args:
        bench: the bench; without `tune` its runs need not be trained.
        only: names of the rows to take; None takes all.

    Raises:
        SettingsError: a row is not in the bench, or one of its rows is not possible.
        StoreError: a run of a tuned row is missing, or none of its settings can win.
        ValueError: as `bench_rows`.
    """
    rows = expand(bench)
    names = [*dict.fromkeys(row.row for row in rows), *bench.ensembles]
    for name in only or ():
        if name not in names:
            raise SettingsError(f"a row of this bench is one of {names}, however: {name!r} came.")
    asked = names if only is None else [name for name in names if name in only]
    needed = {row for name in asked for row in bench.ensembles.get(name, (name,))}
    taken = [row for row in rows if row.row in needed]
    found = [rows_on_cache(bench, part.cache, part.rows, taken) for part in bench_rows(bench)]
    return tuple(_with_ensembles(bench, part, asked) for part in found)


def _with_ensembles(bench: BenchSpec, part: ChosenRows, asked: Sequence[str]) -> ChosenRows:
    """The rows that were asked for, ensembles last: their members are runs of the rows' winners."""
    keys = {name: ensemble_keys(bench.ensembles[name], part.rows) for name in asked if name in bench.ensembles}
    rows = {name: part.rows[name] for name in asked if name not in keys} | keys
    return ChosenRows(part.cache, rows, {name: one for name, one in part.tuned.items() if name in rows})


def rows_on_cache(bench: BenchSpec, cache: str, keys: dict[str, tuple[str, ...]], rows: Sequence[Row]) -> ChosenRows:
    """Some rows of a bench on one cache, without its ensembles, by the keys of all rows, or of all their settings.

    Raises:
        StoreError: as `chosen_rows`.
    """
    if not bench.tune:
        return ChosenRows(cache, {row.name: keys[row.name] for row in rows}, {})
    store = Path(bench.store)
    untold = {row.name: [key for key in keys[row.name] if failure_of(store, key) is None] for row in rows}
    require_runs(store, untold, cache)
    tried: dict[str, list[Tried]] = {}
    for row in rows:
        tried.setdefault(row.row, []).append(_tried(store, row, keys[row.name], bench.tune_by))
    tuned = {name: _decided(store, name, settings, bench.tune_by) for name, settings in tried.items()}
    return ChosenRows(cache, {name: one.winner.keys for name, one in tuned.items()}, tuned)


def _tried(store: Path, row: Row, keys: tuple[str, ...], by: TuneMetric) -> Tried:
    found = [failure_of(store, key) or _value(store, key, by) for key in keys]
    told = [f"seed {spec.seed}: {one}" for spec, one in zip(row.specs, found, strict=True) if isinstance(one, str)]
    known = [one for one in found if not isinstance(one, str)]
    value = None if told else sum(value for value, _ in known) / len(known)
    nlls = [nll for _, nll in known if nll is not None]
    nll = sum(nlls) / len(nlls) if nlls else None
    return Tried(row.setting, row.changes, row.specs[0], keys, value, told[0] if told else "", nll)


def _value(store: Path, key: str, by: TuneMetric) -> tuple[float, float | None] | str:
    """What a run is judged by and its NLL, or why it cannot be judged."""
    found = read_record(store, key).evaluations.get("select")
    value = None if found is None else found.metrics[by]
    if found is None or value is None:
        return "there are no selection rows of a foreground class to choose by"
    # A head that answers NaN still names a class for each row; its probabilities give it away.
    brier = found.metrics["brier"]
    is_number = brier is not None and not math.isnan(brier)
    return (value, found.metrics["nll"]) if is_number else "its predictions are not numbers"


def _decided(store: Path, row: str, tried: Sequence[Tried], by: TuneMetric) -> Tuned:
    """The setting that won; one that has no rival needs no value, only its runs."""
    able = [one for one in tried if one.value is not None]
    if len(tried) == 1 and all(is_finished(store, key) for key in tried[0].keys):
        able = list(tried)
    if not able:
        raise StoreError(
            f"a row needs a setting that gave {NAMES[by]} with every seed, however: none of the {len(tried)} of row "
            f"{row!r} did; {tried[0].problem} Tune over other values, or give the split a share to select."
        )
    winner = max(able, key=lambda one: one.preference(by))
    found = Tuned(tuple(tried), winner, (), by)
    return found if found.is_tied else replace(found, edges=edges(tried, winner))


def edges(tried: Sequence[Tried], winner: Tried) -> tuple[str, ...]:
    """Numbers of which the winner has the smallest or largest value tried; a bound of the option is no such edge.

    Values of other kinds do not count: a learning rate of SGD says nothing about one of AdamW.
    """
    found = []
    for path in dict.fromkeys(path for one in tried for path in one.changes):
        kind, value = type(_owner(winner.spec, path)[0]), _number(winner.spec, path)
        alike = [_number(one.spec, path) for one in tried if type(_owner(one.spec, path)[0]) is kind]
        others = {number for number in alike if number is not None}
        if value is None or len(others) < 2 or value in _bounds(winner.spec, path):
            continue
        for word, end in (("smallest", min(others)), ("largest", max(others))):
            if value == end:
                found.append(f"{path.rsplit('.', 1)[-1]}={value:g} ({word} of {len(others)})")
    return tuple(found)


def _owner(spec: RunSpec, path: str) -> tuple[Spec | None, str]:
    """The spec that has an option, and the option's name there; None where the branch has no such spec."""
    *parts, name = path.split(".")
    owner: Any = spec
    for part in parts:
        owner = getattr(owner, part) if isinstance(owner, Spec) and part in type(owner).model_fields else None
    return (owner, name) if isinstance(owner, Spec) and name in type(owner).model_fields else (None, name)


def _number(spec: RunSpec, path: str) -> float | None:
    """The value of an option where it is a number."""
    owner, name = _owner(spec, path)
    value = None if owner is None else getattr(owner, name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bounds(spec: RunSpec, path: str) -> tuple[float, ...]:
    """The least and largest value that an option may have, as far as they are values of it."""
    owner, name = _owner(spec, path)
    rules: list[Any] = [] if owner is None else type(owner).model_fields[name].metadata
    found: list[Any] = [r.ge for r in rules if isinstance(r, Ge)] + [r.le for r in rules if isinstance(r, Le)]
    return tuple(map(float, found))


def lines_of(tuned: Mapping[str, Tuned]) -> tuple[dict[str, Any], ...]:
    """One line for each setting tried: row, setting, value, won, runs and problem."""
    return tuple(
        {
            "row": name,
            "setting": tried.name,
            "value": tried.value,
            "won": tried is one.winner,
            "runs": list(tried.keys),
            "problem": tried.problem,
        }
        for name, one in tuned.items()
        for tried in one.tried
    )
