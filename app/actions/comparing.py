"""Comparing the rows of a bench from the command line, and saving the comparison."""

from pathlib import Path
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


def compare_bench(
    bench: BenchSpec,
    baseline: str | None = None,
    role: Literal["select", "test"] = "select",
    only: list[str] | None = None,
) -> list[Comparison]:
    """Compare the rows of a bench as its file and caches are now; return one comparison per cache.

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
    """Return the folder for a comparison's table and report after checking that it can be written.

    Raises:
        OutputError: the folder or a file in it cannot be written.
    """
    folder = out or Path(bench.store) / "compare" / f"{bench.name}-{role}"
    check_folder(folder)
    for name in ("table.csv", "table.json", "report.html"):
        check_file(folder / name, makes_folder=True)
    return folder


def save_comparisons(bench: BenchSpec, comparisons: list[Comparison], folder: Path) -> list[Path]:
    """Write each table as CSV, JSON, Markdown and LaTeX, and one report for all; return the paths."""
    written = []
    for number, comparison in enumerate(comparisons):
        stem = "table" if len(comparisons) == 1 else f"table-{number}"
        for ending in (".csv", ".json"):
            save(comparison, folder / f"{stem}{ending}")
            written.append(folder / f"{stem}{ending}")
        for ending, text in ((".md", to_markdown(comparison)), (".tex", to_latex(comparison))):
            write_text(folder / f"{stem}{ending}", text)
            written.append(folder / f"{stem}{ending}")
    return [*written, write_report(comparisons, Path(bench.store), folder / "report.html")]


def append_comparisons(bench: BenchSpec, comparisons: list[Comparison], path: Path) -> str:
    """Add the runs of comparisons to a CSV file of metrics; return a sentence about what was done.

    Raises:
        OutputError: the file is not a readable .csv file, or holds runs on another split or role.
    """
    done = [append_runs(Path(bench.store), comparison, path) for comparison in comparisons]
    added, replaced = sum(one.added for one in done), sum(one.replaced for one in done)
    return f"{path}: {added} runs added, {replaced} runs replaced"
