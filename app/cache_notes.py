"""What the page says of a cache: its size, the names in it, and whether it leaves options without effect."""

import torch

from frostbench.app.workspace import Workspace
from frostbench.benchmarks.settings.nouns import noun_for
from frostbench.training.checks.corrections import correction_notes
from frostbench.training.run import RunSpec

VIEW_ROWS = {"view_sets": "train", "tta": "eval"}
"""Rows that take names of view sets, and the role of those sets."""


def names_in_cache(name: str, workspace: Workspace) -> dict[str, list[str]]:
    """Return, for each row that takes names, the names in a cache to choose from; none if it cannot be read."""
    empty: dict[str, list[str]] = {"columns": [], "background": [], "view_sets": [], "tta": []}
    if name not in workspace.cache_names():
        return empty
    try:
        facts, sets = workspace.facts(name), workspace.view_sets(name)
    except (ValueError, OSError):
        # `about_cache` shows the error, and the page stays usable: another cache can be chosen.
        return empty
    views = {row: [name for name, role in sets.items() if role == wanted] for row, wanted in VIEW_ROWS.items()}
    return {"columns": list(facts.columns), "background": list(facts.classes)} | views


def about_cache(name: str, workspace: Workspace) -> str:
    """Return one line of plain text about a cache; empty if the page has no such cache."""
    if name not in workspace.cache_names():
        return ""
    try:
        facts = workspace.facts(name)
    except (ValueError, OSError) as error:
        return f"This cache cannot be read: {error}"
    counts = [n for n in facts.classes.values() if n]
    sizes = " to ".join(f"{n:,}" for n in sorted({min(counts), max(counts)})) if counts else ""
    spread = f"{sizes} {noun_for(max(counts), 'image')} each" if counts else "no images"
    columns = "; ".join(f"{column}: {text}" for column, text in facts.columns.items())
    images, classes = noun_for(facts.images, "image"), noun_for(len(facts.classes), "class")
    return f"{facts.images:,} {images}, {len(facts.classes):,} {classes} of {spread}. {columns}"


def notes_on_corrections(run: RunSpec, name: str, share: float, workspace: Workspace) -> tuple[str, ...]:
    """Return notes on corrections of the class frequencies that cancel each other on a cache.

    Args:
        run: run to be trained.
        name: the cache; without it, there are no notes.
        share: share of the training rows; class sizes are those of the cache times this.
        workspace: workspace of the page.

    Raises:
        ValueError: the cache cannot be read.
    """
    if name not in workspace.cache_names():
        return ()
    counts = torch.tensor([round(share * n) for n in workspace.facts(name).classes.values()], dtype=torch.int64)
    return correction_notes(run, torch.arange(len(counts)).repeat_interleave(counts), len(counts))
