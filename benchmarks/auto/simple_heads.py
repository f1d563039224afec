"""Check by cross-validation on the training rows whether a simple head is better than a trained one."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from frostbench.benchmarks.auto.held_out import cross_validated
from frostbench.benchmarks.comparison.bootstrap import point_sums, resampled_sums
from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.comparison.metrics import MAIN, metrics_of
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.settings.parsing import parse, preset, with_changes
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.run import RunSpec

SIMPLE: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "--preset lda": {"preset": "lda"},
        "--preset lda --set head.classifier.shrinkage=fixed --set head.classifier.alpha=0.5": {
            "preset": "lda",
            "head.classifier.shrinkage": "fixed",
            "head.classifier.alpha": 0.5,
        },
        "--preset logreg": {"preset": "logreg"},
        "--preset ridge": {"preset": "ridge"},
    }
)
"""Simple heads to try: command-line options to the settings they stand for."""
FOLDS, RESAMPLES = 5, 2000


@dataclass(frozen=True)
class Better:
    """A simple head that is better on held-out training rows.

    Attributes:
        options: command-line options that train it.
        value: its macro F1 over foreground classes.
        own: macro F1 of the trained head.
        low: lower end of the interval of the difference.
        high: upper end.
    """

    options: str
    value: float
    own: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"a simple head does better in {FOLDS}-fold cross-validation on the training rows: macro F1 "
            f"{self.value:.3f} against {self.own:.3f} (difference {self.value - self.own:+.3f}, interval "
            f"{self.low:+.3f} to {self.high:+.3f}). Try {self.options}"
        )


def better_simple_head(bench: BenchSpec, record: RunRecord, device: str = "cpu") -> Better | None:
    """Return the best simple head if it beats a run of a bench on held-out training rows, else None.

    All heads are cross-validated on the training rows alone, with the same folds of whole groups, and compared on the
    same rows. A head counts as better if the group bootstrap interval of the difference in macro F1 lies above 0; its
    coverage is 95 % simultaneously for all heads tried (Bonferroni).

    Raises:
        ValueError: the run cannot be cross-validated, or the training rows have too few groups.
    """
    (cache,) = bench.caches
    table, split, _ = opened_to_train(cache, bench, rows_of(bench), device, "never")
    trained = RunSpec.model_validate(record.full_spec)
    candidates = {options: _simple(trained, changes) for options, changes in SIMPLE.items()}
    candidates = {options: run for options, run in candidates.items() if run.head != trained.head}
    found = cross_validated({"": trained} | candidates, table, split, FOLDS, device, has_epochs=True)
    return _best(found.frame, found.predictions)


def _simple(trained: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    options = {name: value for name, value in changes.items() if name != "preset"}
    shared = {"columns": trained.columns, "background": trained.background, "seed": trained.seed}
    return parse(RunSpec, with_changes(preset(changes["preset"]), options)).model_copy(update=shared)


def _best(frame: Frame, predictions: Mapping[str, Predictions]) -> Better | None:
    """Return the simple head with the highest macro F1 if it is significantly better than the run, whose name is ""."""
    points = [float(metrics_of(frame, sums)[MAIN][0]) for sums in point_sums(frame, list(predictions.values()))]
    values = dict(zip(predictions, points, strict=True))
    baseline = values.pop("", None)
    if baseline is None or not values:
        return None
    best = max(values, key=values.__getitem__)
    deltas = np.concatenate(
        [
            metrics_of(frame, simple)[MAIN] - metrics_of(frame, trained)[MAIN]
            for _, (trained, simple) in resampled_sums(frame, [predictions[""], predictions[best]], RESAMPLES, 0)
        ]
    )
    tail = 0.025 / len(values)
    low, high = np.quantile(deltas, [tail, 1 - tail])
    return Better(best, values[best], baseline, float(low), float(high)) if low > 0 else None
