"""`frostbench calibration`."""

from pathlib import Path
from typing import Annotated

import typer

from frostbench.app.commands.bench import Baseline, BenchFile, Caches, Overrides
from frostbench.app.commands.common import Labels, Plugins


def calibration(
    bench: BenchFile,
    caches: Caches = None,
    baseline: Baseline = None,
    role: Annotated[
        str,
        typer.Option(
            "--on",
            "--role",
            metavar="[validation|test]",
            help="Measure on validation or test rows; use test only at the end.",
        ),
    ] = "validation",
    ood: Annotated[
        Path | None,
        typer.Option(help="Cache with the same recipe whose images belong to no class, to measure OOD detection."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file; its table is written beside it. [default: STORE/calibration/NAME-ROLE.html]"),
    ] = None,
    overrides: Overrides = None,
    labels: Labels = None,
    plugins: Plugins = None,
) -> None:
    """Measure the calibration of a bench's rows before and after temperature scaling. Writes a report."""
    from frostbench.app.actions.benches import read_bench
    from frostbench.app.actions.calibrating import calibrate_bench, check_page, save_calibration
    from frostbench.benchmarks.calibration.tables import to_text
    from frostbench.benchmarks.settings.roles import role_of

    role = role_of(role)
    spec = read_bench(bench, overrides, plugins or [], caches or [], labels)
    page = out or Path(spec.store) / "calibration" / f"{spec.name}-{role}.html"
    check_page(page)
    reports = calibrate_bench(spec, baseline, role, ood)
    for report in reports:
        print(to_text(report))
    for path in save_calibration(reports, page):
        print(path)
