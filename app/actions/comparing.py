"""Comparing the rows of a bench from the command line, and saving the comparison."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from frostbench.benchmarks.comparison.appending import append_runs
from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.comparison.compare import compare as compare_rows
from frostbench.benchmarks.comparison.documents import to_latex, to_markdown
from frostbench.benchmarks.comparison.tables import save
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.store import require_runs
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.outputs.places import check_file, check_folder
from frostbench.embedcache.outputs.writing import write_text

TABLES = (".csv", ".json")
DOCUMENTS: Mapping[str, Callable[[Comparison], str]] = MappingProxyType({".md": to_markdown, ".tex": to_latex})
REPORT = "report.html"


def compare_bench(
    bench: BenchSpec,
    baseline: str | None = None,
    role: Literal["select", "test"] = "select",
    only: list[str] | None = None,
) -> list[Comparison]:
    """Compare the stored runs of a bench that match its settings and caches; return one comparison per cache.

    A tuned row is compared with the setting that won. `only` restricts the comparison to the named rows.

    Raises:
        SettingsError: a name in `only` is not a row of the bench.
        StoreError: a run is missing from the store, or runs cannot be compared.
    """
    store, comparisons = Path(bench.store), []
    for part in chosen_rows(bench, only):
        require_runs(store, part.rows, part.cache)
        title = f"{bench.name} on {part.cache}"
        comparisons.append(compare_rows(store, part.rows, baseline, role, title=title, tuned=part.tuned))
    return comparisons


def check_comparisons(bench: BenchSpec, role: str, out: Path | None) -> Path:
    """Return the folder for the tables and the report of comparisons after checking that they can be written.

    Raises:
        OutputError: the folder or a file in it cannot be written.
    """
    folder = out or Path(bench.store) / "compare" / f"{bench.name}-{role}"
    check_folder(folder)
    tables = [path for paths in _table_paths(folder, len(bench.caches)) for path in paths]
    for path in (*tables, folder / REPORT):
        check_file(path, makes_folder=True)
    return folder


def _table_paths(folder: Path, comparisons: int) -> list[list[Path]]:
    """Return the files of each comparison's table; they are numbered if there are several comparisons."""
    stems = ["table"] if comparisons == 1 else [f"table-{number}" for number in range(comparisons)]
    return [[folder / f"{stem}{ending}" for ending in (*TABLES, *DOCUMENTS)] for stem in stems]


def save_comparisons(bench: BenchSpec, comparisons: list[Comparison], folder: Path) -> list[Path]:
    """Write the table of each comparison as CSV, JSON, Markdown and LaTeX, and one report; return the paths."""
    written = []
    for comparison, paths in zip(comparisons, _table_paths(folder, len(comparisons)), strict=True):
        for path in paths:
            if path.suffix in DOCUMENTS:
                write_text(path, DOCUMENTS[path.suffix](comparison))
            else:
                save(comparison, path)
        written += paths
    return [*written, write_report(comparisons, Path(bench.store), folder / REPORT)]


def append_comparisons(bench: BenchSpec, comparisons: list[Comparison], path: Path) -> str:
    """Add the runs of comparisons to a CSV file of metrics; return a sentence about what was done.

    Raises:
        OutputError: the file is not a readable .csv file, or holds runs on another split or role.
    """
    done = [append_runs(Path(bench.store), comparison, path) for comparison in comparisons]
    added, replaced = sum(one.added for one in done), sum(one.replaced for one in done)
    return f"{path}: {added} runs added, {replaced} runs replaced"
