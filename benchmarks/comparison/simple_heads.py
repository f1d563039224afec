"""Whether a simple head does better than a trained one, by cross-validation on the training rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from frostbench.benchmarks.comparison.bootstrap import Frame, Predictions, metrics_of, point_sums, resampled_sums
from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.settings.parsing import parse, preset, with_changes
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.cuts import merge_groups
from frostbench.embedcache.splits.folds import make_folds
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import FeatureTable
from frostbench.training.crossval.crossval import CrossValidated, cross_validate
from frostbench.training.data.part import Data
from frostbench.training.metrics.classification import brier, confidence
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
"""The heads that are tried, by the options that train them."""
FOLDS, RESAMPLES = 5, 2000
METRIC = "macro_f1_fg"


@dataclass(frozen=True)
class Better:
    """A simple head that did better on held-out training rows.

    Attributes:
        options: what trains it, as words of the command line.
        value: its macro F1 over foreground classes.
        own: that of the head that was trained.
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
    """The best of the simple heads where it beats a run of a bench on held-out training rows, else None.

    Both are cross-validated on the training rows alone, with the same folds and whole groups, and compared on the same
    rows: a head counts as better where the interval of the difference in macro F1, by resampling groups and at the
    level of 95 % over all heads that are tried (Bonferroni), lies above 0.

    Raises:
        ValueError: the run cannot be cross-validated, or the training rows are of too few groups.
    """
    (cache,) = bench.caches
    table, split, _ = opened_to_train(cache, bench, rows_of(bench), device, "never")
    own = RunSpec.model_validate(record.full_spec)
    tried = {options: _simple(own, changes) for options, changes in SIMPLE.items()}
    tried = {options: run for options, run in tried.items() if run.head != own.head}
    frame, answers = _held_out({"": own} | tried, table, split, device)
    return _best(frame, answers)


def _simple(own: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """A simple head on what the run reads."""
    options = {name: value for name, value in changes.items() if name != "preset"}
    shared = {"columns": own.columns, "background": own.background, "seed": own.seed}
    return parse(RunSpec, with_changes(preset(changes["preset"]), options)).model_copy(update=shared)


def _held_out(
    runs: Mapping[str, RunSpec], table: FeatureTable, split: Split, device: str
) -> tuple[Frame, dict[str, Predictions]]:
    """What heads that did not see them say of the training rows, run by run; a run that fails has no answers."""
    chosen = split.roles == "train"
    groups = merge_groups(table.groups, table.content)[chosen]
    folds = make_folds(table.labels[chosen], groups, SplitSpec(folds=FOLDS, test=0), table.has_groups)
    data = table_to_data(table, split, device=device)
    names, found = list(runs), dict[str, Predictions]()
    for event in cross_validate(list(runs.values()), data, torch.from_numpy(folds)):
        if isinstance(event, CrossValidated):
            found[names[event.run]] = _answers(event, data)
    labels = table.labels[chosen].astype(np.int64)
    numbered = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    counts = np.bincount(labels, minlength=len(table.class_names))
    background = tuple(table.class_names.index(name) for name in runs[""].background)
    return Frame(labels, numbered, counts, background), found


def _answers(event: CrossValidated, data: Data) -> Predictions:
    labels, said = data.train.labels.cpu(), event.predictions
    return Predictions(
        said.predicted.numpy(),
        confidence(said.log_p, labels, said.predicted)[0].double().numpy(),
        confidence(said.logits.double().log_softmax(1), labels, said.predicted)[0].double().numpy(),
        said.log_p.double().gather(1, labels[:, None]).squeeze(1).numpy(),
        brier(said.log_p, labels).double().numpy(),
    )


def _best(frame: Frame, answers: Mapping[str, Predictions]) -> Better | None:
    """The simple head with the highest macro F1, where it beats the run, which is called "", beyond doubt."""
    points = [float(metrics_of(frame, sums)[METRIC][0]) for sums in point_sums(frame, list(answers.values()))]
    values = dict(zip(answers, points, strict=True))
    own = values.pop("", None)
    if own is None or not values:
        return None
    best = max(values, key=values.__getitem__)
    drawn = np.concatenate(
        [
            metrics_of(frame, simple)[METRIC] - metrics_of(frame, trained)[METRIC]
            for _, (trained, simple) in resampled_sums(frame, [answers[""], answers[best]], RESAMPLES, 0)
        ]
    )
    tail = 0.025 / len(values)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Better(best, values[best], own, float(low), float(high)) if low > 0 else None
