"""What the kept heads of a bench say of the judged rows, before and after temperature scaling and as they are."""

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
"""Before and after temperature scaling, and with whatever calibration the head was given."""
SAME = 1e-6
"""Probabilities closer than this are the same."""


@dataclass(frozen=True)
class Place:
    """Where the heads are, and the rows that they are judged on.

    Attributes:
        store: the run store.
        cache: folder of the cache, as the bench names it.
        table: the table of the runs.
        split: the role of each of its rows.
        role: select or test.
        order: [N] places in the table of the judged rows, in the order of the comparison.
        groups: [N] their groups, from 0.
        others: rows that belong to none of the classes; None where there are none to tell apart.
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
    def back(self) -> Tensor:
        """[N] where each judged row stands among them in the order of the table."""
        return torch.from_numpy(np.argsort(np.argsort(self.order)))

    def ordered(self, log_p: Tensor) -> Judged:
        """Log-probabilities [N, C] in the order of the table, as rows in the order of the comparison."""
        return Judged.of(log_p[self.back], torch.from_numpy(self.table.labels[self.order]))


@dataclass(frozen=True)
class Said:
    """What one run says.

    Attributes:
        judged: by side, the rows with their log-probabilities; a side that there is none of is left out, and `as_is`
            is the very same as another side that says the same.
        told_apart: by side and score, the scores of the judged rows [N] and of the others [M].
        temperature: that of the side `after`; NaN where there is none.
    """

    judged: dict[str, Judged]
    told_apart: dict[str, dict[str, tuple[Floats, Floats]]]
    temperature: float

    @property
    def has_own(self) -> bool:
        """Whether the head's own calibration is neither none nor the temperature of `after`."""
        others = [self.judged.get(side) for side in ("before", "after")]
        return "as_is" in self.judged and not any(self.judged["as_is"] is other for other in others)


def said_by(record: RunRecord, place: Place) -> Said:
    """Read the head of a run, and take what it says of the judged rows and of the others.

    Raises:
        StoreError: the run is of another table or split.
        ValueError: its head is missing or damaged, or was made for vectors of another recipe than the others are of.
    """
    if (record.data.table, record.data.split) != (place.table.content_hash, place.split.hash):
        raise StoreError(
            f"a run is judged on the table and split that it was trained on, however: those of run {record.key} are "
            "others. Run the bench again; it trains what is not there."
        )
    head = _head(place.store, record)
    answers, rows = _judged(head, place)
    apart = _apart(head, place)
    after = scaled(rows, apart)
    judged = {"before": place.ordered(answers.logits.double().log_softmax(1))}
    if after is not None:
        judged["after"] = place.ordered(after.log_p)
    own = _as_is(head, answers, rows, place.role, apart)
    if own is not None:
        as_is = place.ordered(own)
        judged["as_is"] = next((side for side in judged.values() if _is_same(side, as_is)), as_is)
    temperature = float("nan") if after is None else after.temperature
    logits = answers.logits[place.back]
    return Said(judged, _told_apart(head, logits, temperature, place), temperature)


def _head(store: Path, record: RunRecord) -> Predictive:
    if record.members:
        return ensemble_of(store, [read_record(store, key) for key in record.members])
    return load_head(run_folder(store, record.key) / "head")


def _judged(head: Predictive, place: Place) -> tuple[CrossFitted, Rows]:
    """The judged rows in the order of the table, in which folds were cut when the run was evaluated."""
    chosen = np.zeros(len(place.table.ids), dtype=bool)
    chosen[place.order] = True
    answers = predictions(head, place.table, chosen)
    groups = torch.from_numpy(place.groups[np.argsort(place.order)])
    return answers, Rows(answers.logits, torch.from_numpy(place.table.labels[chosen]), groups)


def _apart(head: Predictive, place: Place) -> Calibration | None:
    """The rows that temperatures are fitted to; None where that are folds of the judged ones."""
    source = source_of(place.split, place.role)
    if source == "folds":
        return None
    chosen = place.split.roles == source
    return Calibration(predictions(head, place.table, chosen).logits, torch.from_numpy(place.table.labels[chosen]))


def _as_is(head: Predictive, answers: CrossFitted, rows: Rows, role: str, apart: Calibration | None) -> Tensor | None:
    """Log-probabilities [N, C] with the head's own calibration; cross-fitted where that was fitted to these rows.

    None of an ensemble whose members were fitted to these rows.
    """
    members = head.members if isinstance(head, Ensemble) else (head,)
    fitted_here = role == "select" and any(
        one.layers.spec.rows in ("select", "both") and one.layers.spec.reads_rows for one in members
    )
    if not fitted_here:
        return answers.log_p.double()
    if isinstance(head, Ensemble):
        return None
    prior = head.layers.spec.deployed(head.class_names, head.priors.present)
    folds, also = folds_of(rows.labels, rows.groups), apart if head.layers.spec.rows == "both" else None
    return cross_fitted(head.layers, rows.logits, rows.labels, folds, prior, also).log_p.double()


def _is_same(one: Judged, other: Judged) -> bool:
    return bool(np.abs(one.p - other.p).max() < SAME)


def _told_apart(
    head: Predictive, logits: Tensor, temperature: float, place: Place
) -> dict[str, dict[str, tuple[Floats, Floats]]]:
    """Scores of the judged rows and of the others, by side; an ensemble has no logits, so none that need them."""
    if place.others is None:
        return {}
    known = {
        name: recipe.model_dump(mode="json") | {"hash": recipe.hash} for name, recipe in place.others.recipes.items()
    }
    head.check_recipes(known)
    everything: npt.NDArray[np.bool_] = np.ones(len(place.others.ids), dtype=bool)
    others = predictions(head, place.others, everything).logits
    found = {}
    for side, t in (("before", 1.0), ("after", temperature)):
        if not (np.isnan(t) or logits.isnan().any() or others.isnan().any()):
            own, other = scores(logits / t), scores(others / t)
            names = OF_PROBABILITIES if isinstance(head, Ensemble) else tuple(own)
            found[side] = {name: (own[name], other[name]) for name in names}
    return found
