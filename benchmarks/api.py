"""The Python API: fit a head or compare settings on arrays or a cache, and load an exported bundle."""

import tempfile
import warnings as python_warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from frostbench.benchmarks.arrays import Given, Vectors, cache_of, given_roles
from frostbench.benchmarks.auto.choose import preset_to_start_from, with_choice
from frostbench.benchmarks.calibration.report import calibration as calibration
from frostbench.benchmarks.comparison.compare import compare as compare_rows
from frostbench.benchmarks.fitted import Compared as Compared
from frostbench.benchmarks.fitted import Fitted as Fitted
from frostbench.benchmarks.runs.evaluate import with_recipes
from frostbench.benchmarks.runs.events import CacheOpened, RowStarted, RunFailed
from frostbench.benchmarks.runs.keys import bench_rows
from frostbench.benchmarks.runs.refit import refitted_if_possible
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.parsing import AUTO, SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.settings.points import with_base_called
from frostbench.benchmarks.settings.roles import RoleName, role_of
from frostbench.embedcache.cache import Cache
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import load as load_bundle
from frostbench.heads.bundle.export import load_head
from frostbench.heads.ensemble import Predictive
from frostbench.heads.spec import Spec
from frostbench.heads.trained import TrainedHead

Settings = Mapping[str, Any]
"""Differences from a preset, dotted or nested, as in a bench file: {"train.optim.lr": 0.01}."""


def fit(
    x: Vectors | Cache | FeatureTable | Path | str,
    labels: Any = None,
    spec: Settings | Spec | None = None,
    *,
    preset: str | None = None,
    groups: Any = None,
    class_names: Any = None,
    split: Settings | Sequence[str] | None = None,
    seed: int = 0,
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
    store: Path | str | None = None,
    refit: bool | None = None,
) -> Fitted:
    """Train a head on vectors and labels, and evaluate it on validation rows.

    The data is split into training, validation, calibration and test rows. The number of epochs is chosen on validation
    rows and temperatures are fitted to calibration rows. With these choices, the head is then trained again on training
    and validation rows together; its metrics are those from before this refit.

    Args:
        x: vectors [N, D], a mapping of column names to vectors, a table, or a cache or its folder. Vectors are stored
            as float16, or as float32 if float16 would lose too much precision.
        labels: [N] text, integers or booleans as an array, list, tensor or pandas column. Integers index class_names if
            these are text. None for a table or a cache, which have their own labels.
        spec: differences from the preset, such as {"train.optim.lr": 0.01}, or a complete RunSpec.
        preset: name of a preset, such as plain, baseline, full or arcface, or auto, which chooses a configuration for
            these data by cross-validation on the training rows (`frostbench.benchmarks.auto.choose.choose`). None means
            auto if `spec` says nothing about the head and its training, and baseline otherwise.
        groups: [N] text or integers; rows of one group stay on one side of the split. A row without a group (None, NaN
            or blank) is independent of the others.
        class_names: [C] all classes in the desired order, including classes without rows, which keep their column in
            `predict_proba`. None uses the labels that occur, in numerical or natural order.
        split: options of the split, such as {"test": 0}, or the role of each row: train, select (validation),
            calibrate or test. Roles that do not occur, except test, are cut from the training rows.
        seed: seed of the run.
        device: device for training, such as cpu or cuda.
        plugins: Python files with your own losses and heads; their code is executed.
        store: folder in which the run is kept and reused, or None to keep nothing.
        refit: whether to train again on training and validation rows. None refits if possible; otherwise the
            `warnings` of the result say why not.

    Returns:
        The trained head with its record, metrics and warnings.

    Warns:
        UserWarning: the arrays need attention, for example classes without rows. These warnings are also among the
            `warnings` of the result.

    Raises:
        ValueError: arrays differ in length, labels are missing, vectors are not finite, settings are unknown, not
            allowed or in conflict, training fails, or `refit` is True without validation rows.

    Example:
        >>> import frostbench
        >>> fitted = frostbench.fit(x, labels, {"train.optim.lr": 0.01})  # doctest: +SKIP
        >>> fitted.metrics["macro_f1_fg"]  # doctest: +SKIP
        0.914
        >>> fitted.predict(new_x)  # doctest: +SKIP
        array(['oak', 'fir'], dtype='<U3')
    """
    x = x.path if isinstance(x, Cache) else x
    settings = spec.model_dump(mode="json", exclude={"seed"}) if isinstance(spec, Spec) else dict(spec or {})
    start = preset_to_start_from(preset, settings)
    options = {"preset": start, "base": settings, "seeds": [seed], "plugins": [str(file) for file in plugins]}
    with _bench(x, labels, groups, class_names, split, options, store) as (bench, given):
        bench, choice = with_choice(bench, device) if start == AUTO else (bench, None)
        warnings = (*given.notes, *(choice.warnings if choice else ()), *_run(bench, device))
        (key,) = bench_rows(bench)[0].rows[bench.preset]
        record = read_record(Path(bench.store), key)
        refitted, why_not = refitted_if_possible(bench, bench.caches[0], [record], device, refit)
        first = load_head(run_folder(Path(bench.store), key) / "head")
        head = refitted[0] if refitted else first
        notes = (*(note for note in record.notes if note not in first.warnings), *head.warnings)
        warnings = (*warnings, *notes, *([f"not refitted: {why_not}"] if why_not else []))
        return Fitted(_with_recipes(head, x), record, warnings, given.classes, bool(refitted), choice)


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
    role: RoleName = "validation",
    tune: Mapping[str, Settings | Sequence[Settings]] | None = None,
) -> Compared:
    """Train several settings with several seeds and compare each with the first, paired on the same images.

    Args:
        x: vectors, a table or a cache, as in `fit`.
        labels: labels, as in `fit`, or None for a table or a cache.
        rows: settings by name. The first is the baseline, given as differences from the preset; the others are given
            as differences from the baseline.
        preset: preset of the baseline.
        groups: groups, as in `fit`; intervals come from resampling them.
        class_names: all classes in order, as in `fit`.
        split: options of the split or the role of each row, as in `fit`.
        seeds: seeds of every row. A verdict needs at least two; five are better.
        device: device for training, such as cpu or cuda.
        plugins: Python files with your own losses and heads; their code is executed.
        store: folder in which the runs are kept and reused, or None to keep nothing.
        role: rows to compare on: "validation", or "test" once everything else is decided.
        tune: by row, the settings to choose from, as values by dotted option, such as
            {"train.optim.lr": [0.003, 0.01]}, or as a list: equally many for all rows, or {} for none. Each row is then
            represented by the setting that is best on the validation rows.

    Returns:
        The comparison; print it for a sentence per row and the tables.

    Raises:
        ValueError: as in `fit`, or there are fewer than two rows, or tuned rows have different numbers of settings.

    Example:
        >>> import frostbench
        >>> rows = {"baseline": {}, "smoother": {"train.loss.smoothing.epsilon": 0.2}}
        >>> compared = frostbench.compare(x, labels, rows, seeds=range(5))  # doctest: +SKIP
        >>> compared.verdict("smoother", "macro_f1_fg")  # doctest: +SKIP
    """
    if len(rows) < 2:
        raise SettingsError(f"A comparison needs at least two rows, the first being the baseline, got {list(rows)}.")
    x = x.path if isinstance(x, Cache) else x
    (baseline, base), *others = rows.items()
    toggles = {name: dict(row) for name, row in others}
    options = {"preset": preset, "base": dict(base), "toggles": toggles, "seeds": list(seeds)}
    options |= {"plugins": [str(file) for file in plugins], "tune": with_base_called(preset, tune or {}, list(rows))}
    with _bench(x, labels, groups, class_names, split, options, store) as (bench, given):
        warnings = (*given.notes, *_run(bench, device))
        (chosen,) = chosen_rows(bench)
        keys = dict(zip(rows, chosen.rows.values(), strict=True))
        tuned = {name: chosen.tuned[row] for name, row in zip(rows, chosen.rows, strict=True) if chosen.tuned}
        title = f"{', '.join(name for name, _ in others)} against {baseline}"
        comparison = compare_rows(Path(bench.store), keys, baseline, role_of(role), title=title, tuned=tuned)
        return Compared(comparison, warnings)


def load(folder: Path | str, plugins: Sequence[str | Path] = ()) -> Predictive:
    """Load the head or ensemble of an exported bundle. Code named in the bundle is not executed.

    Args:
        folder: folder of the bundle, as written by `frostbench export`, `frostbench train --out` or `Fitted.save`.
        plugins: .py files that may be executed if the head is a plugin; only the file that it needs is.

    Warns:
        UserWarning: a part of the bundle could not be checked.

    Raises:
        BundleError: the folder is not a bundle, has another format version, or was changed.
        PluginError: the head is a plugin whose file was not given, or a given file is missing or fails to run.

    Example:
        >>> import frostbench
        >>> head = frostbench.load("bundle")  # doctest: +SKIP
        >>> log_p = head.log_probabilities({"features": vectors})  # doctest: +SKIP
        >>> classes = [head.class_names[index] for index in head.decide(log_p)]  # doctest: +SKIP
    """
    bundle = load_bundle(Path(folder), plugins)
    for note in bundle.notes:
        python_warnings.warn(note, stacklevel=2)
    return bundle.head


def _with_recipes(head: TrainedHead, x: Vectors | FeatureTable | Path | str) -> TrainedHead:
    """Return the head with the recipes of its training vectors; arrays have none."""
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
    """Yield a bench with these options on x; its cache and store are temporary unless the caller provides them."""
    with tempfile.TemporaryDirectory(prefix="frostbench-") as scratch:
        roles = given_roles(split)
        given = cache_of(x, labels, groups, class_names, roles, Path(scratch) / "cache")
        for note in given.notes:
            python_warnings.warn(note, stacklevel=4)
        cut: Any = (split or {}) if roles is None else {"source": "given", "test": 0}
        folders = {"caches": [str(given.folder)], "store": str(store or Path(scratch) / "store")}
        yield parse(BenchSpec, {**options, **folders, "split": cut}), given


def _run(bench: BenchSpec, device: str) -> tuple[str, ...]:
    """Train the missing runs and return warnings about split and options; without tuning, a failed run is an error."""
    events = list(run_bench(bench, device=device))
    failed = [f"row {e.row!r}, seed {e.seed}: {e.message}" for e in events if isinstance(e, RunFailed)]
    if failed and not bench.tune:
        raise ValueError("; ".join(failed))
    warnings = [warning for e in events if isinstance(e, CacheOpened | RowStarted) for warning in e.warnings]
    return tuple(dict.fromkeys(warnings))
