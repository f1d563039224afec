"""The Python API of one page: fit a head, or compare settings, on arrays or on a cache, and load a bundle."""

import tempfile
import warnings as python_warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostbench.benchmarks.arrays import Given, Vectors, cache_of, given_roles
from frostbench.benchmarks.calibration.report import calibration as calibration
from frostbench.benchmarks.comparison.compare import Role
from frostbench.benchmarks.comparison.compare import compare as compare_rows
from frostbench.benchmarks.fitted import Compared as Compared
from frostbench.benchmarks.fitted import Fitted as Fitted
from frostbench.benchmarks.runs.evaluate import with_recipes
from frostbench.benchmarks.runs.events import CacheOpened, RowStarted, RunFailed
from frostbench.benchmarks.runs.keys import bench_rows
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.refit import refitted_if_possible
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.settings.points import with_base_called
from frostbench.embedcache.cache import Cache
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import load as load_bundle
from frostbench.heads.bundle.export import load_head
from frostbench.heads.ensemble import Predictive
from frostbench.heads.spec import Spec
from frostbench.heads.trained import TrainedHead

Settings = Mapping[str, Any]
"""Differences from a preset, dotted or nested, as in a bench file."""


def fit(
    x: Vectors | Cache | FeatureTable | Path | str,
    labels: Any = None,
    spec: Settings | Spec | None = None,
    *,
    preset: str = "baseline",
    groups: Any = None,
    class_names: Any = None,
    split: Settings | Sequence[str] | None = None,
    seed: int = 0,
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
    store: Path | str | None = None,
    refit: bool | None = None,
) -> Fitted:
    """Train one head; epochs are chosen on selection rows and temperatures fitted on calibration rows.

    The head is then trained anew on training and selection rows together, with all that these chose, since selection
    rows no longer have to judge; its metrics are those from before.

    Args:
        x: vectors [N, D], columns of them by name, a table, a cache or its folder. They are kept as float16, or as
            float32 where that would lose too much (`frostbench.embedcache.exchange.writing.storage_of`).
        labels: [N] text, whole numbers or booleans, in an array, a list, a tensor or a column of pandas; integers index
            class_names where that is text. None for a table or a cache, which have their own.
        spec: differences from the preset, such as {"train.optim.lr": 0.01}, or a whole RunSpec.
        preset: name of a preset, such as plain, baseline, full or arcface.
        groups: [N] text or whole numbers; rows of one group stay on one side of the split. A row whose group is missing
            (None, NaN or blank) is independent of the others.
        class_names: [C] all classes, in the order in which they are wanted; also those without rows, which keep their
            column in `predict_proba`. None takes the labels that occur: numbers in their order, text in natural order.
        split: options of the split, such as {"test": 0}, or the role of each row: train, select, calibrate or test.
            Roles that are not named are cut from the training rows, save test.
        seed: of the run.
        device: cpu, cuda …
        plugins: files of your own losses and heads; they are run.
        store: folder in which the run is kept and found again; None keeps nothing.
        refit: whether the head is trained anew on training and selection rows (`frostbench.benchmarks.runs.refit`);
            left open, it is where it can be, and `warnings` say why not.

    Warns:
        UserWarning: something about the arrays is to be looked at, such as classes without rows; it is also among the
            `warnings` of what is returned.

    Raises:
        ValueError: arrays do not fit each other, labels are missing, vectors are not finite, settings are unknown, not
            allowed or do not go together, or a refit is asked for without selection rows.
    """
    x = x.path if isinstance(x, Cache) else x
    settings = spec.model_dump(mode="json", exclude={"seed"}) if isinstance(spec, Spec) else dict(spec or {})
    options = {"preset": preset, "base": settings, "seeds": [seed], "plugins": [str(file) for file in plugins]}
    with _bench(x, labels, groups, class_names, split, options, store) as (bench, given):
        warnings = (*given.notes, *_run(bench, device))
        (key,) = bench_rows(bench)[0].rows[preset]
        record = read_record(Path(bench.store), key)
        again, why_not = ((), "") if refit is False else _again(bench, record, device, bool(refit))
        first = load_head(run_folder(Path(bench.store), key) / "head")
        head = again[0] if again else first
        own = (*(note for note in record.notes if note not in first.warnings), *head.warnings)
        told = (*warnings, *own, *([f"not refitted: {why_not}"] if why_not else []))
        return Fitted(_known(head, x), record, told, given.classes, bool(again))


def _again(bench: BenchSpec, record: RunRecord, device: str, is_asked: bool) -> tuple[tuple[TrainedHead, ...], str]:
    return refitted_if_possible(bench, bench.caches[0], [record], device, is_asked=is_asked)


def compare(
    x: Vectors | Cache | FeatureTable | Path | str,
    labels: Any,
    rows: Mapping[str, Settings],
    *,
    preset: str = "baseline",
    groups: Any = None,
    class_names: Any = None,
    split: Settings | Sequence[str] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
    store: Path | str | None = None,
    role: Role = "select",
    tune: Mapping[str, Settings | Sequence[Settings]] | None = None,
) -> Compared:
    """Train settings over seeds and compare them with the first, paired on the same images.

    `rows` holds settings by name: the first are differences of the baseline from the preset, the others what each
    changes of the baseline. Every row is trained with all `seeds`; a verdict needs two, better five. `role` says whose
    images are compared: select, or test when everything else is decided. Intervals come from resampling `groups`.
    `tune` gives every row equally many settings to choose from, by row: values by dotted option, such as
    {"train.optim.lr": [0.003, 0.01]}, a list of settings, or {} for none; each row is then the one that is best on the
    selection rows. The other arguments are those of `fit`.

    Raises:
        ValueError: as in `fit`, there are fewer than two rows, or they are not tuned alike.
    """
    if len(rows) < 2:
        raise SettingsError(f"a comparison needs two rows or more, however: {list(rows)} came. Name a baseline first.")
    x = x.path if isinstance(x, Cache) else x
    (baseline, base), *others = rows.items()
    toggles = {name: dict(row) for name, row in others}
    options = {"preset": preset, "base": dict(base), "toggles": toggles, "seeds": list(seeds)}
    options |= {"plugins": [str(file) for file in plugins], "tune": with_base_called(preset, tune or {}, list(rows))}
    with _bench(x, labels, groups, class_names, split, options, store) as (bench, given):
        warnings = (*given.notes, *_run(bench, device))
        (chosen,) = chosen_rows(bench)
        keys = dict(zip(rows, chosen.rows.values(), strict=True))
        tuned = {name: chosen.tuned[own] for name, own in zip(rows, chosen.rows, strict=True) if chosen.tuned}
        title = f"{', '.join(name for name, _ in others)} against {baseline}"
        made = compare_rows(Path(bench.store), keys, baseline, role, title=title, tuned=tuned)
        return Compared(made, warnings)


def load(folder: Path | str, plugins: Sequence[str | Path] = ()) -> Predictive:
    """Load the head or the ensemble of an exported bundle; no code that it names is run.

    Args:
        folder: of the bundle, as `frostbench export` or `frostbench train --out` wrote it.
        plugins: .py files that may be run, for a head that is a plugin; those that the bundle does not need are not.

    Warns:
        UserWarning: something of the bundle could not be checked.

    Raises:
        BundleError: the folder is no bundle, of another format version, or was changed.
        PluginError: the head is a plugin whose file was not named, or a file that was named is missing or does not run.
    """
    bundle = load_bundle(Path(folder), plugins)
    for note in bundle.notes:
        python_warnings.warn(note, stacklevel=2)
    return bundle.head


def _known(head: TrainedHead, x: Vectors | FeatureTable | Path | str) -> TrainedHead:
    """The head with the recipes of the vectors that it was trained on; arrays have none."""
    if isinstance(x, FeatureTable):
        return with_recipes(head, x)
    return head if isinstance(x, str | Path) else replace(head, recipes={})


@contextmanager
def _bench(
    x: Vectors | FeatureTable | Path | str,
    labels: Any,
    groups: Any,
    class_names: Any,
    split: Settings | Sequence[str] | None,
    options: Mapping[str, Any],
    store: Path | str | None,
) -> Iterator[tuple[BenchSpec, Given]]:
    """The bench of these options on x; what has no place of its own lies in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="frostbench-") as scratch:
        roles = given_roles(split)
        given = cache_of(x, labels, groups, class_names, roles, Path(scratch) / "cache")
        for note in given.notes:
            python_warnings.warn(note, stacklevel=4)
        cut: Any = (split or {}) if roles is None else {"source": "given", "test": 0}
        places = {"caches": [str(given.folder)], "store": str(store or Path(scratch) / "store")}
        yield parse(BenchSpec, {**options, **places, "split": cut}), given


def _run(bench: BenchSpec, device: str) -> tuple[str, ...]:
    """Train what is missing; returns what the bench says about split and options.

    Of a tuned row a setting may fail, for another one may win.
    """
    events = list(run_bench(bench, device=device))
    failed = [f"row {e.row!r}, seed {e.seed}: {e.message}" for e in events if isinstance(e, RunFailed)]
    if failed and not bench.tune:
        raise ValueError("; ".join(failed))
    told = [warning for e in events if isinstance(e, CacheOpened | RowStarted) for warning in e.warnings]
    return tuple(dict.fromkeys(told))
