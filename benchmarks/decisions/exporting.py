"""Exports the head of one run, with the decision that was kept for it."""

import shutil
from pathlib import Path

from frostbench.benchmarks.decisions.applying import with_decision
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.kept import kept_decision
from frostbench.benchmarks.runs.store import StoreError, run_folder
from frostbench.embedcache.outputs.places import check_new_folder
from frostbench.embedcache.outputs.writing import new_folder
from frostbench.heads.bundle import export
from frostbench.heads.ensemble import Ensemble


def run_at(path: Path) -> tuple[Path, str] | None:
    """Return store and key of a run, given as STORE/KEY or STORE/runs/KEY; None if there is no such run."""
    if (path / "record.json").is_file() and path.absolute().parent.name == "runs":
        return path.absolute().parent.parent, path.name
    if (path.parent / "runs" / path.name / "record.json").is_file():
        return path.parent, path.name
    return None


def export_run(store: Path, key: str, out: Path, plugins: tuple[Path, ...] = ()) -> str:
    """Write the bundle of a run's head to a new folder, with the decision kept for the run; return a sentence.

    Without a kept decision, the bundle is a copy of the run's.

    Args:
        store: the run store.
        key: key of the run.
        out: new folder of the bundle.
        plugins: .py files that may be executed if the head is a plugin.

    Raises:
        StoreError: the run has no head, or its kept decision is damaged.
        ValueError: the decision does not fit the head, or the bundle was changed.
        FileExistsError: the folder already exists.
        OutputError: the folder cannot be created.
    """
    check_new_folder(out)
    folder, decision = run_folder(store, key) / "head", kept_decision(store, key)
    if not folder.is_dir():
        raise StoreError(f"An export needs the head of a run, but run {key} keeps none. Export its bench row instead.")
    if decision is None:
        with new_folder(out) as partial:
            shutil.copytree(folder, partial, dirs_exist_ok=True)
        return f"{out}: run {key}, with its own decisions"
    bundle = export.load(folder, plugins)
    if isinstance(bundle.head, Ensemble):
        raise StoreError(f"Decisions belong to a single head, but run {key} is an ensemble. Remove its decision.")
    export.save(with_decision(bundle.head, decision), out, bundle.canary)
    return f"{out}: run {key}, with the kept decision: {describe(decision)}"


def describe(decision: Decision) -> str:
    """Return the parts of a decision that are not neutral, as text.

    >>> describe(Decision(temperature=1.5, abstain_below=0.6))
    'temperature × 1.5, no answer below 0.6'
    """
    named = {
        f"temperature × {decision.temperature:g}": decision.temperature != 1,
        f"class prior {decision.uniform:.0%} of the way to uniform": decision.uniform > 0,
        f"shares of {len(decision.shares)} classes": bool(decision.shares),
        f"cut-offs of {len(decision.cutoffs)} classes": bool(decision.cutoffs),
        f"{len(decision.costs)} costs": bool(decision.costs),
        f"no answer below {decision.abstain_below:g}": decision.abstain_below > 0,
    }
    return ", ".join(text for text, is_set in named.items() if is_set) or "none"
