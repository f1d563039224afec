"""The list of settings as CSV text."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from frostbench.app.workbench.requests import store_of
from frostbench.app.workbench.runs.marking import chosen_settings
from frostbench.app.workbench.runs.marks import Mark, read_marks
from frostbench.app.workbench.runs.run_list import Setting
from frostbench.app.workspace import Workspace
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.embedcache.outputs.spreadsheets import as_cell

TEXTS = ("name", "options", "preset", "tags", "star", "note", "seeds")
"""Columns before the metrics; behind them are `seconds`, `cache`, `store` and `runs`."""


def as_csv(request: Any, workspace: Workspace) -> dict[str, str]:
    """Return settings as CSV text, in the order of the request: means of the metrics over seeds, shares from 0 to 1.

    Texts that a spreadsheet would evaluate get an apostrophe; see `frostbench.embedcache.outputs.spreadsheets`.

    Args:
        request: `store` and `ids` of its settings.
        workspace: workspace of the page.

    Raises:
        RequestError: the request has another form, or names a setting that the store does not have.
    """
    found = request if isinstance(request, Mapping) else {}
    store = store_of(found, workspace)
    settings, marks = chosen_settings(store, found.get("ids")), read_marks(store).marks
    metrics = [name for name in HIGHER_IS_BETTER if any(name in setting.values for setting in settings)]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([*TEXTS, *metrics, "seconds", "cache", "store", "runs"])
    for setting in settings:
        cells = _cells(setting, marks.of(setting.entry), metrics)
        writer.writerow([as_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    return {"text": text.getvalue()}


def _cells(setting: Setting, mark: Mark, metrics: list[str]) -> list[str | float]:
    options = "; ".join(f"{one.title}: {one.old or '–'} → {one.new or '–'}" for one in setting.changes)
    texts = [mark.name or setting.name, options, setting.preset, ", ".join(mark.tags), "yes" if mark.star else ""]
    texts += [mark.note, ", ".join(map(str, setting.seeds))]
    means = [_mean(setting.values.get(name, ())) for name in metrics]
    return [*texts, *means, setting.seconds, setting.cache, setting.store, " ".join(setting.keys)]


def _mean(values: tuple[float | None, ...]) -> float | str:
    """Return the mean of the defined values, or "" if there are none."""
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 6) if known else ""
