"""BenchSpec: a base, toggles, a grid and seeds, and the rows of runs they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from frostbench.benchmarks.settings.parsing import SettingsError, Tree, merge, parse, preset, with_changes
from frostbench.benchmarks.settings.plugins import translated
from frostbench.benchmarks.settings.points import (
    Name,
    Settings,
    check_ensembles,
    check_equal,
    check_named,
    combinations,
    names_of,
    settings_of,
)
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.spec import Spec, canonical
from frostbench.training.checks.conflicts import check
from frostbench.training.run import RunSpec

FileName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


TuneMetric = Literal["macro_f1_fg", "balanced_accuracy", "accuracy", "nll", "brier"]
FALLING = ("nll", "brier")
"""Metrics that are better where they are lower."""


class BenchSpec(Spec):
    """A comparison: a base run, rows that differ from it in stated ways, and the seeds and caches they run on."""

    name: FileName = Field(default="bench", title="Bench name")
    """Name under which the bench is kept in the store: letters, digits, dot, dash and underscore."""
    caches: Annotated[tuple[Name, ...], Field(max_length=1000, title="Caches")] = ()
    """Folders of the caches, relative to the current directory; each is named once and compared on its own."""
    store: Name = Field(default="results", title="Run store")
    """Folder of the run store, in which finished runs are kept; a run found there is not trained again."""
    preset: Name = Field(default="baseline", title="Preset of the base row")
    """Preset that the base starts from; it names the base row."""
    base: Annotated[
        dict[Name, Any], Field(default_factory=dict, max_length=1000, title="Base row: differences from the preset")
    ]
    """Differences of the base from its preset, dotted or nested; they hold for every row, whatever its preset."""
    toggles: Annotated[
        dict[Name, dict[Name, Any]], Field(default_factory=dict, max_length=1000, title="Toggles: rows by name")
    ]
    """Rows by name; each is a set of differences from the base, whose preset the key `preset` exchanges."""
    grid: Annotated[
        dict[Name, tuple[Any, ...]], Field(default_factory=dict, max_length=20, title="Grid: values by option")
    ]
    """Values by dotted option; every combination is one row, and the one that equals the base is the base row."""
    tune: Annotated[dict[Name, Settings], Field(default_factory=dict, max_length=1000, title="Tuning: settings by row")]
    """Settings that each row may choose from: values by dotted option or a list; equally many, or {} for none."""
    tune_by: TuneMetric = Field(default="macro_f1_fg", title="Tuning: metric")
    """Metric of the selection rows by which settings win, nll and brier by falling; choose it before the results."""
    ensembles: Annotated[
        dict[Name, Annotated[tuple[Name, ...], Field(min_length=2, max_length=1000)]],
        Field(default_factory=dict, max_length=1000, title="Ensembles: members by name"),
    ]
    """Names of two rows or more by name of the ensemble that averages their probabilities, seed by seed."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000, title="Seeds")] = (0, 1, 2)
    """Seeds that each row is trained with; all rows use the same."""
    plugins: Annotated[tuple[Name, ...], Field(max_length=100, title="Plugin files")] = ()
    """Python files with losses and heads of your own, relative to the current directory; they are run."""
    split: SplitSpec = Field(default=SplitSpec(), title="Split")
    """How the rows of each cache are shared out."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000, title="Background classes")] = ()
    """Names of classes that foreground F1 leaves out, in every row; none named keeps each row's own."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison, or one setting of it where the bench tunes its rows.

    Attributes:
        name: how the table calls it, such as `arcface`, or `arcface @ lr=0.01` for a setting.
        specs: one run per seed, in the order of the bench's seeds.
        warnings: what is to be said about its combination of options.
        row: name of the row that it is a setting of, or its own name.
        setting: what the setting is called, such as lr=0.01; empty where the row has no other.
        changes: what the setting changes of the row, by dotted option.
    """

    name: str
    specs: tuple[RunSpec, ...]
    warnings: tuple[str, ...]
    row: str
    setting: str
    changes: Tree


def expand(bench: BenchSpec) -> tuple[Row, ...]:
    """The rows of a bench, or all settings of each: the base first, then the toggles, then the grid.

    >>> bench = BenchSpec(preset="plain", grid={"train.optim.lr": (0.003, 0.01)}, seeds=(0, 1))
    >>> [(row.name, [spec.train.optim.lr for spec in row.specs]) for row in expand(bench)]
    [('plain', [0.003, 0.003]), ('lr=0.01', [0.01, 0.01])]
    >>> bench = BenchSpec(preset="plain", tune={"plain": {"train.optim.lr": (0.003, 0.01)}})
    >>> [row.name for row in expand(bench)]
    ['plain @ lr=0.003', 'plain @ lr=0.01']

    Raises:
        SettingsError: an option is unknown or not allowed, a row or a setting equals another, two rows share a name, a
            row states what the bench states for all of them, or the rows are not tuned over as many settings.
        ValueError: options of a row do not go together.
    """
    _check_once("seeds", bench.seeds, [str(seed) for seed in bench.seeds])
    _check_once("caches", bench.caches, [str(Path(cache).resolve()) for cache in bench.caches])
    _check_stated_once(bench)
    base = with_changes(_from_preset(bench.preset), bench.base)
    trees = [(bench.preset, base)]
    trees += [(name, _toggled(bench, base, name, changes)) for name, changes in bench.toggles.items()]
    trees += _on_grid(bench, base)
    _check_names([name for name, _ in trees])
    check_ensembles(bench.ensembles, [name for name, _ in trees])
    if bench.tune:
        check_named(bench.tune, [name for name, _ in trees])
        check_equal(bench.tune)
    rows = [row for name, tree in trees for row in _tuned(bench, name, tree)]
    _check_different(rows)
    return tuple(rows)


def _on_grid(bench: BenchSpec, base: Tree) -> list[tuple[str, Tree]]:
    """The rows of the grid but the one that is the base."""
    points = combinations(bench.grid)
    trees = [(name, with_changes(base, point)) for name, point in zip(names_of(points), points, strict=True)]
    own = _runs(bench, bench.preset, base) if trees else ()
    return [(name, tree) for name, tree in trees if _runs(bench, name, tree) != own]


def _tuned(bench: BenchSpec, row: str, tree: Tree) -> list[Row]:
    """A row, or every setting of it."""
    points = settings_of(bench.tune.get(row, {}))
    settings = [""] if points == [{}] else names_of(points)
    rows = []
    for setting, changes in zip(settings, points, strict=True):
        name = f"{row} @ {setting}" if setting else row
        rows.append(Row(name, *_runs(bench, name, with_changes(tree, changes)), row, setting, changes))
    return rows


def _from_preset(name: str) -> Tree:
    """The whole tree of a preset, so that a change which names the present kind keeps its branch."""
    return merge(RunSpec().model_dump(mode="json"), preset(name))


def _toggled(bench: BenchSpec, base: Tree, name: str, changes: Tree) -> Tree:
    """The row of a toggle: the differences of the base, such as a shared budget, also hold over another preset."""
    start = changes.get("preset")
    if start is not None and not isinstance(start, str):
        raise SettingsError(f"toggle {name!r}: preset must be a name, however: {start!r} came. Write `preset: full`.")
    rest = {path: value for path, value in changes.items() if path != "preset"}
    return with_changes(base if start is None else with_changes(_from_preset(start), bench.base), rest)


def _runs(bench: BenchSpec, name: str, tree: Tree) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
    """The run of each seed, and what is to be said about its combination of options."""
    fixed = {"background": list(bench.background)} if bench.background else {}
    try:
        tree = translated(tree, bench.plugins, RunSpec)
        specs = tuple(parse(RunSpec, tree | fixed | {"seed": seed}) for seed in bench.seeds)
        return specs, check(specs[0])
    except SettingsError as error:
        raise SettingsError(f"row {name!r}: {error}") from error
    except ValueError as error:
        raise ValueError(f"row {name!r}: {error}") from error


def _check_once(what: str, values: Sequence[Any], names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise SettingsError(f"{what} must differ, however: {list(values)} came. Name each once.")


def _check_stated_once(bench: BenchSpec) -> None:
    """Refuse what would silently be overruled: a seed in a row, and a background where the bench has one for all."""
    places = {"base": bench.base, "grid": bench.grid} | {f"toggle {name!r}": c for name, c in bench.toggles.items()}
    for name, settings in bench.tune.items():
        changed = {path: value for changes in settings_of(settings) for path, value in changes.items()}
        places[f"tune of {name!r}"] = changed
        if "background" in changed:
            raise SettingsError(
                f"background classes say what is measured, so they are not tuned, however: tune of {name!r} states "
                "them. Give `background` of the bench."
            )
    for place, changes in places.items():
        if "seed" in changes:
            raise SettingsError(
                f"seeds are the same for all rows, however: {place} states seed={changes['seed']}. Give `seeds` of the "
                "bench, or `--seed` of `frostbench train`."
            )
        if "background" in changes and bench.background:
            raise SettingsError(
                f"background classes are stated once, however: {place} and the bench both do. Keep the bench's."
            )


def _check_names(names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SettingsError(f"rows need different names, however: two are called {name!r}. Rename the toggle.")


def _check_different(rows: Sequence[Row]) -> None:
    """Refuse two settings of a row that are the same, and two rows with the same settings."""
    known: dict[str, dict[str, str]] = {}
    for row in rows:
        own, options = known.setdefault(row.row, {}), str(canonical(row.specs[0]))
        if options in own:
            raise SettingsError(
                f"settings of a row must differ, however: {row.name!r} has the same options as {own[options]!r}. "
                "Change or remove it."
            )
        own[options] = row.name
    seen: dict[frozenset[str], str] = {}
    for name, own in known.items():
        same = seen.setdefault(frozenset(own), name)
        if same != name:
            raise SettingsError(
                f"rows must differ, however: {name!r} has the same options as {same!r}, and would be compared with "
                "itself. Change or remove it."
            )
