"""Measuring the calibration of a bench's rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from frostbench.app.progress import bar
from frostbench.benchmarks.calibration.page import write_calibration_page
from frostbench.benchmarks.calibration.report import CalibrationReport, calibration
from frostbench.benchmarks.calibration.tables import save
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.outputs.places import check_file

TABLE_ENDINGS = (".csv", ".json")


def check_page(path: Path) -> None:
    """Check before any measurement that a page and its table can be written.

    Raises:
        OutputError: the file does not end in .html, or the page or its table cannot be written.
    """
    check_file(path, (".html",), "a calibration report", makes_folder=True)
    for ending in TABLE_ENDINGS:
        check_file(path.with_suffix(ending), makes_folder=True)


def calibrate_bench(
    bench: BenchSpec, baseline: str | None, role: Literal["select", "test"], ood: Path | None
) -> tuple[CalibrationReport, ...]:
    """Measure the calibration of a bench with a progress bar; return one report per cache."""
    with bar("measuring") as progress:
        return calibration(bench, role, baseline=baseline, others=ood, progress=progress.move)


def save_calibration(reports: Sequence[CalibrationReport], page: Path) -> list[Path]:
    """Write the page and, beside it, the lines of all reports as CSV and JSON; return the paths."""
    written = [write_calibration_page(reports, page)]
    for ending in TABLE_ENDINGS:
        save(reports, page.with_suffix(ending))
        written.append(page.with_suffix(ending))
    return written
