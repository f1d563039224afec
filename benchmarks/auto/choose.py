"""Chooses a configuration for a table by cross-validating candidates on its training rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostbench.benchmarks.auto.candidates import CANDIDATES, Candidate
from frostbench.benchmarks.auto.decision import RESAMPLES, best_of
from frostbench.benchmarks.auto.held_out import Progress, cross_validated, ignore
from frostbench.benchmarks.auto.remembered import read_choice, write_choice
from frostbench.benchmarks.auto.result import Choice, Tried
from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.store import check_store
from frostbench.benchmarks.runs.streaming import Stream, opened_to_train
from frostbench.benchmarks.runs.view_sets import data_hash
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import AUTO, SettingsError, Tree
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.embedcache.backbones import resolve_device
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.spec import canonical
from frostbench.training.checks.data import check_data
from frostbench.training.crossval.crossval import check_runs
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.run import RunSpec

FOLDS, FEWER_FOLDS, LARGE = 5, 3, 1_000
"""Number of folds, and the smaller number from `LARGE` training rows on or if there are too few groups."""
MOST_ROWS = 20_000
"""Largest number of rows to choose on; a larger table is sampled."""
OF_THE_DATA = ("columns", "view_sets", "tta", "background")
"""Settings that say which rows and vectors to use, not how to train."""


def preset_to_start_from(preset: str | None, settings: Mapping[str, Any]) -> str:
    """Return the preset to start from: without one, auto if all settings concern the data, otherwise baseline.

    >>> preset_to_start_from(None, {}), preset_to_start_from(None, {"background": ["soil"]})
    ('auto', 'auto')
    >>> preset_to_start_from(None, {"train.optim.lr": 0.01}), preset_to_start_from("full", {})
    ('baseline', 'full')
    """
    if preset is not None:
        return preset
    return AUTO if all(path.split(".")[0] in OF_THE_DATA for path in settings) else "baseline"


def with_choice(
    bench: BenchSpec, device: str = "cpu", progress: Progress = ignore, stream: Stream = "auto"
) -> tuple[BenchSpec, Choice]:
    """Return a bench with the configuration that `choose` finds as its base row, and the choice."""
    choice = choose(bench, device, progress, stream)
    return _started_from(bench, choice.candidate), choice


def choose(bench: BenchSpec, device: str = "cpu", progress: Progress = ignore, stream: Stream = "auto") -> Choice:
    """Choose a configuration for the cache of a bench by grouped cross-validation on the training rows of its split.

    All candidates get the bench's base settings on top of their own and are evaluated on the same held-out rows. Of
    the candidates whose macro F1 is within one standard error of the highest (of the difference, by a group
    bootstrap), the one with the lowest calibrated NLL is chosen. Validation, calibration and test rows are not used,
    so metrics on them are not affected by the choice. The choice is kept in the store and found there the next time.

    Args:
        bench: bench with one cache; its preset and toggles are ignored.
        device: device of the fits, such as cpu or cuda.
        progress: called after each fit.
        stream: whether vectors stay on disk when the winner is trained; candidates that need them in memory are then
            left out.

    Raises:
        SettingsError: the bench does not have exactly one cache, or no candidate allows its base settings.
        OutputError: the store cannot be written.
        ValueError: the cache is unfinished or damaged, or its split is not possible.
    """
    if len(bench.caches) != 1:
        raise SettingsError(
            f"A configuration is chosen for one cache, got {with_noun(len(bench.caches), 'cache')}. Name one."
        )
    runs, refused = _allowed(bench)
    check_store(Path(bench.store))
    rows = expand(_started_from(bench, CANDIDATES[next(iter(runs))]))
    device = str(resolve_device(device))
    table, split, on_disk = opened_to_train(bench.caches[0], bench, rows, device, stream)
    runs, refused = _trainable(runs, refused, table, split, f" Vectors stay on disk: {on_disk}." if on_disk else "")
    path = _path(bench, runs, table, split)
    if (known := read_choice(path)) is not None:
        return known
    choice = _chosen(runs, refused, table, split, device, progress)
    write_choice(path, choice)
    return choice


def _allowed(bench: BenchSpec) -> tuple[dict[str, RunSpec], dict[str, str]]:
    """Return the runs of the candidates that allow the base settings, and why others do not; equal ones are left out.

    Raises:
        SettingsError: there is none, or the settings draw a few shots.
    """
    runs: dict[str, RunSpec] = {}
    refused: dict[str, str] = {}
    for name, candidate in CANDIDATES.items():
        try:
            (row,) = expand(_started_from(bench, candidate))
        except ValueError as error:
            refused[name] = str(error)
            continue
        # Views of training rows would show held-out images.
        run = row.specs[0].model_copy(update={"view_sets": (), "tta": ()})
        if canonical(run) not in map(canonical, runs.values()):
            runs[name] = run
    _some(runs, refused)
    if any(run.shots for run in runs.values()):
        raise SettingsError(f"Preset {AUTO} chooses on all training rows, but shots leaves some out. Choose a preset.")
    return runs, refused


def _trainable(
    runs: Mapping[str, RunSpec], refused: Mapping[str, str], table: FeatureTable, split: Split, why_on_disk: str
) -> tuple[dict[str, RunSpec], dict[str, str]]:
    """Return the runs that can be trained on the split, and why others cannot.

    Raises:
        SettingsError: there is none.
    """
    kept: dict[str, RunSpec] = {}
    refused = dict(refused)
    data = table_to_data(table, split)
    for name, run in runs.items():
        try:
            check_data([run], data) if split.folds is None else check_runs([run], data)
            kept[name] = run
        except ValueError as error:
            refused[name] = f"{error}{why_on_disk}"
    _some(kept, refused)
    return kept, refused


def _some(runs: Mapping[str, RunSpec], refused: Mapping[str, str]) -> None:
    """Check that there is a run."""
    if not runs:
        name, why = next(iter(refused.items()))
        raise SettingsError(
            f"Preset {AUTO} needs a candidate that allows these settings and data, but none does; {name}: {why} Choose "
            "a preset, such as baseline."
        )


def _started_from(bench: BenchSpec, candidate: Candidate) -> BenchSpec:
    """Return the bench with a candidate as its only row, under the bench's own base settings."""
    base: Tree = {**candidate.changes, **bench.base}
    nothing: Mapping[str, Any] = {"toggles": {}, "grid": {}, "tune": {}, "ensembles": {}}
    return bench.model_copy(update={**nothing, "preset": candidate.preset, "base": base})


def _path(bench: BenchSpec, runs: Mapping[str, RunSpec], table: FeatureTable, split: Split) -> Path:
    """Return the file of the choice: its name depends on all that affects the choice."""
    specs = {name: canonical(run) for name, run in runs.items()}
    reads = data_hash(table, next(iter(runs.values())))
    rule = [FOLDS, FEWER_FOLDS, LARGE, MOST_ROWS, RESAMPLES]
    parts = json.dumps([specs, reads, split.hash, ENGINE_VERSION, rule], sort_keys=True)
    return Path(bench.store) / "choices" / f"{hashlib.sha256(parts.encode()).hexdigest()[:16]}.json"


def _chosen(
    runs: Mapping[str, RunSpec],
    refused: Mapping[str, str],
    table: FeatureTable,
    split: Split,
    device: str,
    progress: Progress,
) -> Choice:
    n_rows = int((split.roles == "train").sum())
    left_out = tuple(Tried(name, None, None, why) for name, why in refused.items())
    problem = ""
    for folds in (FOLDS, FEWER_FOLDS, 2) if n_rows < LARGE else (FEWER_FOLDS, 2):
        try:
            found = cross_validated(runs, table, split, folds, device, MOST_ROWS, progress)
        except CacheError as error:
            problem = problem or str(error)
            continue
        choice = best_of(found, CANDIDATES, folds, n_rows, left_out)
        if split.folds is None:
            return choice
        return replace(choice, reason=f"{choice.reason}; metrics on held-out rows are of the same rows")
    first = next(iter(runs))
    reason = f"{first} was taken without comparison, because the training rows cannot be cross-validated: {problem}"
    return Choice(first, CANDIDATES[first], left_out, reason)
