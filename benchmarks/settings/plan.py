"""Defines BenchSpec, the settings of a bench, and expands it into rows of runs."""

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
from frostbench.embedcache.labels.spec import LabelSpec
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.heads.spec import Spec, canonical
from frostbench.training.checks.conflicts import check
from frostbench.training.run import RunSpec

FileName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]

TuneMetric = Literal["macro_f1_fg", "balanced_accuracy", "accuracy", "nll", "brier"]
FALLING = ("nll", "brier")
"""Metrics for which lower is better."""


class BenchSpec(Spec):
    """Settings of a bench: a base run, rows that differ from it, and the seeds and caches they run on."""

    name: FileName = Field(default="bench", title="Bench name")
    """Name of the bench in the store: letters, digits, dots, dashes and underscores."""
    caches: Annotated[tuple[Name, ...], Field(max_length=1000, title="Caches")] = ()
    """Folders of the caches, relative to the current directory; each cache gets its own comparison."""
    store: Name = Field(default="results", title="Run store")
    """Folder in which finished runs are kept; a run found there is not trained again."""
    preset: Name = Field(default="baseline", title="Preset of the base row")
    """Preset that the base row starts from and is named after."""
    base: Annotated[
        dict[Name, Any], Field(default_factory=dict, max_length=1000, title="Base row: differences from the preset")
    ]
    """Differences of the base row from its preset, dotted or nested; they apply to every row, whatever its preset."""
    toggles: Annotated[
        dict[Name, dict[Name, Any]], Field(default_factory=dict, max_length=1000, title="Toggles: rows by name")
    ]
    """Rows by name, each with its differences from the base row; the key `preset` replaces the preset of the base."""
    grid: Annotated[
        dict[Name, tuple[Any, ...]], Field(default_factory=dict, max_length=20, title="Grid: values by option")
    ]
    """Values by dotted option; every combination is a row, except the one that equals the base row."""
    tune: Annotated[dict[Name, Settings], Field(default_factory=dict, max_length=1000, title="Tuning: settings by row")]
    """Settings to choose from, by row: values by dotted option or a list; equally many for all rows, or {} for none."""
    tune_by: TuneMetric = Field(default="macro_f1_fg", title="Tuning: metric")
    """Validation metric that picks the winning setting of each row; decide on it before you see results."""
    ensembles: Annotated[
        dict[Name, Annotated[tuple[Name, ...], Field(min_length=2, max_length=1000)]],
        Field(default_factory=dict, max_length=1000, title="Ensembles: members by name"),
    ]
    """Ensembles by name, each a list of at least two rows whose probabilities are averaged seed by seed."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000, title="Seeds")] = (0, 1, 2)
    """Seeds that every row is trained with."""
    plugins: Annotated[tuple[Name, ...], Field(max_length=100, title="Plugin files")] = ()
    """Python files with your own losses and heads, relative to the current directory; their code is executed."""
    split: SplitSpec = Field(default=SplitSpec(), title="Split")
    """How the rows of each cache are divided into training, validation, calibration and test rows."""
    labels: Annotated[LabelSpec, Field(default_factory=LabelSpec, title="Labels")]
    """Corrections of the labels, merged classes and classes to leave out; each image keeps its role."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000, title="Background classes")] = ()
    """Classes left out of the foreground metrics, for all rows; if empty, each row uses its own `background`."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison, or one setting of a tuned row.

    Attributes:
        name: name in tables, such as `arcface`, or `arcface @ lr=0.01` for a setting.
        specs: one run per seed, in the order of the bench's seeds.
        warnings: warnings about its combination of options.
        row: name of the row; for a setting, of the row it belongs to.
        setting: name of the setting, such as lr=0.01, or "" if the row is not tuned.
        changes: changes that the setting makes to the row, by dotted option.
    """

    name: str
    specs: tuple[RunSpec, ...]
    warnings: tuple[str, ...]
    row: str
    setting: str
    changes: Tree


def expand(bench: BenchSpec) -> tuple[Row, ...]:
    """Expand a bench into its rows, or into all settings of each row: the base first, then toggles, then the grid.

    >>> bench = BenchSpec(preset="plain", grid={"train.optim.lr": (0.003, 0.01)}, seeds=(0, 1))
    >>> [(row.name, [spec.train.optim.lr for spec in row.specs]) for row in expand(bench)]
    [('plain', [0.003, 0.003]), ('lr=0.01', [0.01, 0.01])]
    >>> bench = BenchSpec(preset="plain", tune={"plain": {"train.optim.lr": (0.003, 0.01)}})
    >>> [row.name for row in expand(bench)]
    ['plain @ lr=0.003', 'plain @ lr=0.01']

    Raises:
        SettingsError: an option is unknown or not allowed, two rows or settings are equal, two rows share a name, a
            row sets what the bench sets for all of them, or rows are tuned over different numbers of settings.
        ValueError: options of a row conflict.
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
    """Return the rows of the grid, without the one that equals the base."""
    points = combinations(bench.grid)
    trees = [(name, with_changes(base, point)) for name, point in zip(names_of(points), points, strict=True)]
    base_runs = _runs(bench, bench.preset, base) if trees else ()
    return [(name, tree) for name, tree in trees if _runs(bench, name, tree) != base_runs]


def _tuned(bench: BenchSpec, row: str, tree: Tree) -> list[Row]:
    points = settings_of(bench.tune.get(row, {}))
    settings = [""] if points == [{}] else names_of(points)
    rows = []
    for setting, changes in zip(settings, points, strict=True):
        name = f"{row} @ {setting}" if setting else row
        rows.append(Row(name, *_runs(bench, name, with_changes(tree, changes)), row, setting, changes))
    return rows


def _from_preset(name: str) -> Tree:
    """Return the full tree of a preset, so that setting a `kind` to its present value keeps the branch."""
    return merge(RunSpec().model_dump(mode="json"), preset(name))


def _toggled(bench: BenchSpec, base: Tree, name: str, changes: Tree) -> Tree:
    """Return the row of a toggle; the differences of the base apply even if the toggle names another preset."""
    start = changes.get("preset")
    if start is not None and not isinstance(start, str):
        raise SettingsError(f"toggle {name!r}: `preset` must be a name such as full, got {start!r}.")
    rest = {path: value for path, value in changes.items() if path != "preset"}
    return with_changes(base if start is None else with_changes(_from_preset(start), bench.base), rest)


def _runs(bench: BenchSpec, name: str, tree: Tree) -> tuple[tuple[RunSpec, ...], tuple[str, ...]]:
    """Return the run of each seed, and warnings about the combination of options."""
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
        raise SettingsError(f"{what} must differ, got {list(values)}. Name each once.")


def _check_stated_once(bench: BenchSpec) -> None:
    """Reject settings that would silently be overridden: seeds in rows, or background classes next to the bench's."""
    sources = {"base": bench.base, "grid": bench.grid} | {f"toggle {name!r}": c for name, c in bench.toggles.items()}
    for name, settings in bench.tune.items():
        changed = {path: value for changes in settings_of(settings) for path, value in changes.items()}
        sources[f"tune of {name!r}"] = changed
        if "background" in changed:
            raise SettingsError(
                "Background classes define the metrics, so they cannot be tuned, but `tune` of "
                f"row {name!r} sets them. Set `background` of the bench instead."
            )
    for source, changes in sources.items():
        if "seed" in changes:
            raise SettingsError(
                f"Seeds must be the same for all rows, but {source} sets seed={changes['seed']}. Set `seeds` of the "
                "bench, or use `--seed` of `frostbench train`."
            )
        if "background" in changes and bench.background:
            raise SettingsError(
                f"Background classes must be set once, but {source} and the bench both set them. Keep those of the "
                "bench."
            )


def _check_names(names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise SettingsError(f"Row names must differ, but two rows are called {name!r}. Rename the toggle.")


def _check_different(rows: Sequence[Row]) -> None:
    """Reject a row that lists a setting twice, and two rows with the same settings."""
    known: dict[str, dict[str, str]] = {}
    for row in rows:
        names, options = known.setdefault(row.row, {}), str(canonical(row.specs[0]))
        if options in names:
            raise SettingsError(
                f"Settings of a row must differ, but {row.name!r} has the same options as {names[options]!r}. Change "
                "or remove one of them."
            )
        names[options] = row.name
    seen: dict[frozenset[str], str] = {}
    for name, names in known.items():
        same = seen.setdefault(frozenset(names), name)
        if same != name:
            raise SettingsError(
                f"Rows must differ, but {name!r} has the same options as {same!r}. Change or remove one of them."
            )
