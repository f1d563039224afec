"""Exporting the head of a single run from the command line."""

from collections.abc import Sequence
from pathlib import Path

from frostbench.benchmarks.decisions.exporting import export_run, run_at
from frostbench.benchmarks.settings.parsing import SettingsError


def export_single(run: Path, out: Path, others: Sequence[str], plugins: Sequence[Path] = ()) -> str:
    """Export a run, given as STORE/RUN, with the decision kept for it; return a sentence.

    Args:
        run: the run.
        out: new folder of the bundle.
        others: options that were given and apply to rows of benches alone.
        plugins: files that may be executed if the head is a plugin.

    Raises:
        SettingsError: there is no such run, or options of rows were given.
        ValueError: see `frostbench.benchmarks.decisions.exporting.export_run`.
    """
    found = run_at(run)
    if found is None:
        raise SettingsError(
            f"An export needs a bench and one of its rows, or a run as STORE/RUN, but {run} is no run and no row is "
            "named. Name the row, or check the path."
        )
    if others:
        raise SettingsError(
            f"A single run is exported as it was evaluated, so {', '.join(others)} cannot apply. Remove these options, "
            "or export the row of its bench."
        )
    return export_run(*found, out, tuple(plugins))
