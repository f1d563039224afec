"""The Python API of one page: fit a head, or compare settings, on arrays or on a cache."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.arrays import Vectors, cache_of, given_roles
from benchmarks.calibration.report import calibration as calibration
from benchmarks.compare import ROLE_WORDS, Comparison, Role
from benchmarks.compare import compare as compare_rows
from benchmarks.deltas import BETTER, REASONS, WORSE
from benchmarks.evaluate import with_recipes
from benchmarks.events import CacheOpened, RowStarted, RunDone, RunFailed
from benchmarks.keys import bench_rows
from benchmarks.plan import BenchSpec
from benchmarks.points import with_base_called
from benchmarks.record import RunRecord
from benchmarks.refit import refitted_on
from benchmarks.runner import run_bench
from benchmarks.settings import SettingsError, parse
from benchmarks.store import read_record, run_folder
from benchmarks.tables import MAIN, to_text
from benchmarks.tuning import chosen_rows
from embedcache.table import FeatureTable
from heads.export import load_head
from heads.spec import Spec
from heads.trained import TrainedHead

Settings = Mapping[str, Any]
"""Differences from a preset, dotted or nested, as in a bench file."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained head and how it does.

    Attributes:
        head: what predicts; `heads.export.save(head, folder)` writes its bundle.
        record: everything that is kept of the run; of one that was refitted, as it was before.
        warnings: what is to be said of its split and its options.
        is_refitted: whether the head was trained anew on training and selection rows.
    """

    head: TrainedHead
    record: RunRecord
    warnings: tuple[str, ...]
    is_refitted: bool = False

    @property
    def class_names(self) -> tuple[str, ...]:
        """C names, in the order of the columns of `predict_proba`."""
        return self.head.class_names

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metrics of the selection rows by name, such as macro_f1_fg; empty where the split has no such rows.

        Those of a refitted head are of the run before: the head itself has seen these rows.
        """
        found = self.record.evaluations.get("select")
        return {} if found is None else dict(found.metrics)

    def predict_proba(self, x: Vectors) -> npt.NDArray[np.float64]:
        """Probabilities [N, C] of vectors x [N, D], or of columns by name where the head reads several."""
        return np.asarray(self._log_p(x).double().exp().numpy())

    def predict(self, x: Vectors) -> npt.NDArray[np.str_]:
        """Class names [N] of vectors x [N, D], by the head's thresholds and shifts where it has any."""
        names: npt.NDArray[np.str_] = np.array(self.class_names)[self.head.decide(self._log_p(x)).numpy()]
        return names

    def _log_p(self, x: Vectors) -> Tensor:
        columns = x if isinstance(x, Mapping) else {self.head.columns[0]: x}
        vectors = {name: torch.as_tensor(np.asarray(value, dtype=np.float32)) for name, value in columns.items()}
        return self.head.log_probabilities(vectors)

    def __str__(self) -> str:
        shown = [f"  {name:20} {value:.4f}" for name, value in self.metrics.items() if value is not None]
        when = ", before the refit" if self.is_refitted else ""
        return "\n".join([f"head on {ROLE_WORDS['select']}, {self.record.reason}{when}", *shown, *self.warnings])


@dataclass(frozen=True, eq=False)
class Compared:
    """What a comparison found; printed, it is a sentence for each row and the tables.

    Attributes:
        comparison: the lines by row and metric, with delta, interval, p and verdict.
    """

    comparison: Comparison

    def verdict(self, row: str, metric: str = MAIN) -> str:
        """One sentence on a row against the baseline."""
        line, made = self.comparison.line(row, metric), self.comparison
        told = str(line["verdict"])
        word = {BETTER: "is better than", WORSE: "is worse than"}.get(told, "cannot be told from")
        why = "".join(f"; {reason}" for key, reason in REASONS.items() if told.endswith(f"({key})"))
        return (
            f"{row!r} {word} {made.baseline!r} on {metric}: {line['value']:.4f}, difference {line['delta']:+.4f} "
            f"(95 % interval {line['low']:+.4f} to {line['high']:+.4f}; {made.n_groups} groups, "
            f"{len(made.seeds)} seeds{why})."
        )

    def __str__(self) -> str:
        rows = [row for row in self.comparison.rows if row != self.comparison.baseline]
        return "\n".join(map(self.verdict, rows)) + "\n\n" + to_text(self.comparison)


def fit(
    x: Vectors | FeatureTable | Path | str,
    labels: Sequence[Any] | npt.NDArray[Any] | None = None,
    spec: Settings | Spec | None = None,
    *,
    preset: str = "baseline",
    groups: Sequence[Any] | npt.NDArray[Any] | None = None,
    class_names: Sequence[str] | None = None,
    split: Settings | Sequence[str] | None = None,
    seed: int = 0,
    device: str = "cpu",
    plugins: Sequence[str | Path] = (),
    store: Path | str | None = None,
    refit: bool = False,
) -> Fitted:
    """Train one head; epochs are chosen on selection rows and temperatures fitted on calibration rows.

    Args:
        x: vectors [N, D], which are kept as float16, columns of them by name, a table, or the folder of a cache.
        labels: [N] names, or indices into class_names; None for a table or a cache, which have their own.
        spec: differences from the preset, such as {"train.optim.lr": 0.01}, or a whole RunSpec.
        preset: name of a preset, such as plain, baseline, full or arcface.
        groups: [N] rows of one group stay on one side of the split.
        class_names: what integer labels index.
        split: options of the split, such as {"test": 0}, or the role of each row: train, select, calibrate or test.
            Roles that are not named are cut from the training rows, save test.
        seed: of the run.
        device: cpu, cuda …
        plugins: files of your own losses and heads; they are run.
        store: folder in which the run is kept and found again; None keeps nothing.
        refit: train the head anew on training and selection rows, with all that the latter chose (`benchmarks.refit`).

    Raises:
        ValueError: arrays do not fit each other, settings are unknown, not allowed or do not go together, or a refit is
            asked for without selection rows.
    """
    settings = spec.model_dump(mode="json", exclude={"seed"}) if isinstance(spec, Spec) else dict(spec or {})
    options = {"preset": preset, "base": settings, "seeds": [seed], "plugins": [str(file) for file in plugins]}
    with _bench(x, labels, groups, class_names, split, options, store) as bench:
        warnings = _run(bench, device)
        (key,) = bench_rows(bench)[0].rows[preset]
        record = read_record(Path(bench.store), key)
        if refit:
            (head,) = refitted_on(bench, bench.caches[0], [record], device)
        else:
            head = load_head(run_folder(Path(bench.store), key) / "head")
        return Fitted(_known(head, x), record, warnings, refit)


def compare(
    x: Vectors | FeatureTable | Path | str,
    labels: Sequence[Any] | npt.NDArray[Any] | None,
    rows: Mapping[str, Settings],
    *,
    preset: str = "baseline",
    groups: Sequence[Any] | npt.NDArray[Any] | None = None,
    class_names: Sequence[str] | None = None,
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
    (baseline, base), *others = rows.items()
    toggles = {name: dict(row) for name, row in others}
    options = {"preset": preset, "base": dict(base), "toggles": toggles, "seeds": list(seeds)}
    options |= {"plugins": [str(file) for file in plugins], "tune": with_base_called(preset, tune or {}, list(rows))}
    with _bench(x, labels, groups, class_names, split, options, store) as bench:
        _run(bench, device)
        (chosen,) = chosen_rows(bench)
        keys = dict(zip(rows, chosen.rows.values(), strict=True))
        tuned = {name: chosen.tuned[own] for name, own in zip(rows, chosen.rows, strict=True) if chosen.tuned}
        title = f"{', '.join(name for name, _ in others)} against {baseline}"
        return Compared(compare_rows(Path(bench.store), keys, baseline, role, title=title, tuned=tuned))


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
    class_names: Sequence[str] | None,
    split: Settings | Sequence[str] | None,
    options: Mapping[str, Any],
    store: Path | str | None,
) -> Iterator[BenchSpec]:
    """The bench of these options on x; what has no place of its own lies in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="frostbench-") as scratch:
        roles = given_roles(split)
        cache = cache_of(x, labels, groups, class_names, roles, Path(scratch) / "cache")
        cut: Any = split or {} if roles is None else {"source": "given", "test": 0}
        places = {"caches": [str(cache)], "store": str(store or Path(scratch) / "store")}
        yield parse(BenchSpec, {**options, **places, "split": cut})


def _run(bench: BenchSpec, device: str) -> tuple[str, ...]:
    """Train what is missing; returns what the bench says about split and options.

    Of a tuned row a setting may fail, for another one may win.
    """
    events = list(run_bench(bench, device=device))
    failed = [f"row {e.row!r}, seed {e.seed}: {e.message}" for e in events if isinstance(e, RunFailed)]
    if failed and not bench.tune:
        raise ValueError("; ".join(failed))
    told = [warning for e in events if isinstance(e, CacheOpened | RowStarted) for warning in e.warnings]
    told += [note for e in events if isinstance(e, RunDone) for note in e.record.notes]
    return tuple(dict.fromkeys(told))
