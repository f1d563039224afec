"""BenchSpec: a base, toggles, a grid and seeds, and the rows of runs they stand for."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from benchmarks.plugins import translated
from benchmarks.settings import SettingsError, Tree, merge, parse, preset, with_changes
from embedcache.splits import SplitSpec
from heads.spec import Spec, canonical
from training.conflicts import check
from training.run import RunSpec

Name = Annotated[str, Field(min_length=1, max_length=200)]
FileName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]


class BenchSpec(Spec):
    """A comparison: a base run, rows that differ from it in stated ways, and the seeds and caches they run on."""

    name: FileName = "bench"
    """Name under which the bench is kept in the store: letters, digits, dot, dash and underscore."""
    caches: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    """Folders of the caches, relative to the current directory; each is named once and compared on its own."""
    store: Name = "results"
    """Folder of the run store, in which finished runs are kept; a run found there is not trained again."""
    preset: Name = "baseline"
    """Preset that the base starts from; it names the base row."""
    base: Annotated[dict[Name, Any], Field(default_factory=dict, max_length=1000)]
    """Differences of the base from its preset, dotted or nested; they hold for every row, whatever its preset."""
    toggles: Annotated[dict[Name, dict[Name, Any]], Field(default_factory=dict, max_length=1000)]
    """Rows by name; each is a set of differences from the base, whose preset the key `preset` exchanges."""
    grid: Annotated[dict[Name, tuple[Any, ...]], Field(default_factory=dict, max_length=20)]
    """Values by dotted option; every combination is one row, and the one that equals the base is the base row."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1, max_length=1000)] = (0, 1, 2)
    """Seeds that each row is trained with; all rows use the same."""
    plugins: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    """Python files with losses and heads of your own, relative to the current directory; they are run."""
    split: SplitSpec = SplitSpec()
    """How the rows of each cache are shared out."""
    background: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    """Names of classes that foreground F1 leaves out, in every row; none named keeps each row's own."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison.

    Attributes:
        name: how the table calls it.
        specs: one run per seed, in the order of the bench's seeds.
        warnings: what is to be said about its combination of options.
    """

    name: str
    specs: tuple[RunSpec, ...]
    warnings: tuple[str, ...]


def expand(bench: BenchSpec) -> tuple[Row, ...]:
    """The rows of a bench: the base first, then the toggles, then the grid.

    >>> bench = BenchSpec(preset="plain", grid={"train.optim.lr": (0.003, 0.01)}, seeds=(0, 1))
    >>> [(row.name, [spec.train.optim.lr for spec in row.specs]) for row in expand(bench)]
    [('plain', [0.003, 0.003]), ('lr=0.01', [0.01, 0.01])]

    Raises:
        SettingsError: an option is unknown or not allowed, a row equals another, two rows share a name, or a row states
            what the bench states for all of them.
        ValueError: options of a row do not go together.
    """
    _check_once("seeds", bench.seeds, [str(seed) for seed in bench.seeds])
    _check_once("caches", bench.caches, [str(Path(cache).resolve()) for cache in bench.caches])
    _check_stated_once(bench)
    base = with_changes(_from_preset(bench.preset), bench.base)
    rows = [_row(bench, bench.preset, base)]
    rows += [_row(bench, name, _toggled(bench, base, name, changes)) for name, changes in bench.toggles.items()]
    on_grid = [_row(bench, name, with_changes(base, changes)) for name, changes in _points(bench.grid)]
    rows += [row for row in on_grid if row.specs != rows[0].specs]
    _check_different(rows)
    return tuple(rows)


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


def _points(grid: dict[str, tuple[Any, ...]]) -> Iterator[tuple[str, Tree]]:
    """Names and changes of every combination of the grid's values."""
    empty = [path for path, values in grid.items() if not values]
    if empty:
        raise SettingsError(f"each option of a grid needs values, however: {empty} has none. Remove it or add some.")
    if not grid:
        return
    last = [path.rsplit(".", 1)[-1] for path in grid]
    short = [path if last.count(name) > 1 else name for path, name in zip(grid, last, strict=True)]
    for values in itertools.product(*grid.values()):
        name = ", ".join(f"{label}={_shown(value)}" for label, value in zip(short, values, strict=True))
        yield name, dict(zip(grid, values, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(bench: BenchSpec, name: str, tree: Tree) -> Row:
    fixed = {"background": list(bench.background)} if bench.background else {}
    try:
        tree = translated(tree, bench.plugins, RunSpec)
        specs = tuple(parse(RunSpec, tree | fixed | {"seed": seed}) for seed in bench.seeds)
        return Row(name, specs, check(specs[0]))
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


def _check_different(rows: list[Row]) -> None:
    seen: dict[str, str] = {}
    names: set[str] = set()
    for row in rows:
        if row.name in names:
            raise SettingsError(f"rows need different names, however: two are called {row.name!r}. Rename the toggle.")
        same = seen.get(str(canonical(row.specs[0])))
        if same is not None:
            raise SettingsError(
                f"rows must differ, however: {row.name!r} has the same options as {same!r}, and would be compared with "
                "itself. Change or remove it."
            )
        names.add(row.name)
        seen[str(canonical(row.specs[0]))] = row.name
