"""Probabilities that kept heads predict for the evaluated rows: before and after temperature scaling, and as is."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from frostbench.benchmarks.runs.calibration_sides import Rows, scaled, source_of
from frostbench.benchmarks.runs.ensembles import ensemble_of
from frostbench.benchmarks.runs.evaluate import predictions
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import StoreError, read_record, run_folder
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import load_head
from frostbench.heads.ensemble import Ensemble, Predictive
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import CrossFitted, cross_fitted, folds_of
from frostbench.training.metrics.bins import Floats, Ints
from frostbench.training.metrics.calibration import Judged
from frostbench.training.metrics.ood import OF_PROBABILITIES, scores

SIDES = ("before", "after", "as_is")
"""Before and after temperature scaling, and with the head's own calibration."""
TOLERANCE = 1e-6
"""Probabilities that differ by less are considered equal."""


@dataclass(frozen=True)
class EvaluatedRows:
    """Location of the heads, and the rows to evaluate them on.

    Attributes:
        store: the run store.
        cache: folder of the cache, as named in the bench.
        table: the table of the runs.
        split: role of each row of the table.
        role: select or test.
        order: [N] table indices of the evaluated rows, in the order of the comparison.
        groups: [N] their group indices, from 0.
        others: rows of none of the classes, for OOD detection, or None.
    """

    store: Path
    cache: str
    table: FeatureTable
    split: Split
    role: str
    order: Ints
    groups: Ints
    others: FeatureTable | None

    @property
    def to_comparison_order(self) -> Tensor:
        """[N] position of each evaluated row in table order, listed in the order of the comparison."""
        return torch.from_numpy(np.argsort(np.argsort(self.order)))

    def ordered(self, log_p: Tensor) -> Judged:
        """Reorder log-probabilities [N, C] from the order of the table to that of the comparison."""
        return Judged.of(log_p[self.to_comparison_order], torch.from_numpy(self.table.labels[self.order]))


@dataclass(frozen=True)
class RunProbabilities:
    """Probabilities predicted by one run.

    Attributes:
        by_side: evaluated rows with their log-probabilities, by side. Sides that do not exist are omitted; `as_is` is
            the same object as another side if their probabilities are equal.
        ood_scores: side to score name to the scores of the evaluated rows [N] and of the others [M].
        temperature: temperature of the side `after`; NaN if there is none.
    """

    by_side: dict[str, Judged]
    ood_scores: dict[str, dict[str, tuple[Floats, Floats]]]
    temperature: float

    @property
    def has_own(self) -> bool:
        """Whether the head's own calibration differs from both none and the temperature of `after`."""
        others = [self.by_side.get(side) for side in ("before", "after")]
        return "as_is" in self.by_side and not any(self.by_side["as_is"] is other for other in others)


def probabilities_of(record: RunRecord, evaluated: EvaluatedRows) -> RunProbabilities:
    """Load the head of a run and predict the evaluated rows and the others.

    Raises:
        StoreError: the run belongs to another table or split.
        ValueError: its head is missing or damaged, or the others were extracted with another recipe.
    """
    if (record.data.table, record.data.split) != (evaluated.table.content_hash, evaluated.split.hash):
        raise StoreError(
            f"The table and split must be those that run {record.key} was trained on, but they differ. Run the bench "
            "again to train the missing runs."
        )
    head = _head(evaluated.store, record)
    predicted, rows = _predicted(head, evaluated)
    calibration_rows = _calibration_rows(head, evaluated)
    after = scaled(rows, calibration_rows)
    by_side = {"before": evaluated.ordered(predicted.logits.double().log_softmax(1))}
    if after is not None:
        by_side["after"] = evaluated.ordered(after.log_p)
    own_log_p = _as_is(head, predicted, rows, evaluated.role, calibration_rows)
    if own_log_p is not None:
        as_is = evaluated.ordered(own_log_p)
        by_side["as_is"] = next((side for side in by_side.values() if _is_same(side, as_is)), as_is)
    temperature = float("nan") if after is None else after.temperature
    logits = predicted.logits[evaluated.to_comparison_order]
    return RunProbabilities(by_side, _ood_scores(head, logits, temperature, evaluated), temperature)


def _head(store: Path, record: RunRecord) -> Predictive:
    if record.members:
        return ensemble_of(store, [read_record(store, key) for key in record.members])
    return load_head(run_folder(store, record.key) / "head")


def _predicted(head: Predictive, evaluated: EvaluatedRows) -> tuple[CrossFitted, Rows]:
    """Predict the evaluated rows in table order, the order in which folds were cut when the run was evaluated."""
    chosen = np.zeros(len(evaluated.table.ids), dtype=bool)
    chosen[evaluated.order] = True
    predicted = predictions(head, evaluated.table, chosen)
    groups = torch.from_numpy(evaluated.groups[np.argsort(evaluated.order)])
    return predicted, Rows(predicted.logits, torch.from_numpy(evaluated.table.labels[chosen]), groups)


def _calibration_rows(head: Predictive, evaluated: EvaluatedRows) -> Calibration | None:
    """Predict the rows that temperatures are fitted to, or return None if temperatures are cross-fitted."""
    source = source_of(evaluated.split, evaluated.role)
    if source == "folds":
        return None
    chosen = evaluated.split.roles == source
    return Calibration(
        predictions(head, evaluated.table, chosen).logits, torch.from_numpy(evaluated.table.labels[chosen])
    )


def _as_is(
    head: Predictive, predicted: CrossFitted, rows: Rows, role: str, calibration_rows: Calibration | None
) -> Tensor | None:
    """Return log-probabilities [N, C] with the head's own calibration, cross-fitted if it was fitted to these rows.

    Return None for an ensemble whose members were fitted to these rows.
    """
    members = head.members if isinstance(head, Ensemble) else (head,)
    is_fitted_here = role == "select" and any(
        member.layers.spec.rows in ("select", "both") and member.layers.spec.reads_rows for member in members
    )
    if not is_fitted_here:
        return predicted.log_p.double()
    if isinstance(head, Ensemble):
        return None
    prior = head.layers.spec.deployed(head.class_names, head.priors.present)
    folds, extra_rows = (
        folds_of(rows.labels, rows.groups),
        calibration_rows if head.layers.spec.rows == "both" else None,
    )
    return cross_fitted(head.layers, rows.logits, rows.labels, folds, prior, extra_rows).log_p.double()


def _is_same(first: Judged, other: Judged) -> bool:
    return bool(np.abs(first.p - other.p).max() < TOLERANCE)


def _ood_scores(
    head: Predictive, logits: Tensor, temperature: float, evaluated: EvaluatedRows
) -> dict[str, dict[str, tuple[Floats, Floats]]]:
    """Return scores of the evaluated rows and of the others, by side; ensembles get fewer, as they have no logits."""
    if evaluated.others is None:
        return {}
    recipes = {
        name: recipe.model_dump(mode="json") | {"hash": recipe.hash}
        for name, recipe in evaluated.others.recipes.items()
    }
    head.check_recipes(recipes)
    all_rows: npt.NDArray[np.bool_] = np.ones(len(evaluated.others.ids), dtype=bool)
    others = predictions(head, evaluated.others, all_rows).logits
    scores_by_side = {}
    for side, t in (("before", 1.0), ("after", temperature)):
        if not (np.isnan(t) or logits.isnan().any() or others.isnan().any()):
            known_scores, other_scores = scores(logits / t), scores(others / t)
            names = OF_PROBABILITIES if isinstance(head, Ensemble) else tuple(known_scores)
            scores_by_side[side] = {name: (known_scores[name], other_scores[name]) for name in names}
    return scores_by_side
