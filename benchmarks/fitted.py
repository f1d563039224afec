"""What the Python API returns: a trained head with its run, and a comparison in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from frostbench.benchmarks.arrays import Vectors, vector_columns
from frostbench.benchmarks.comparison.compare import ROLE_WORDS, Comparison
from frostbench.benchmarks.comparison.deltas import BETTER, REASONS, WORSE
from frostbench.benchmarks.comparison.tables import MAIN, settling_words, to_text
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.heads.bundle.export import save
from frostbench.heads.shares import Prior
from frostbench.heads.trained import TrainedHead


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained head and how it does.

    Attributes:
        head: what predicts.
        record: everything that is kept of the run; of one that was refitted, as it was before.
        warnings: what is to be said of its data, its split, its options and its training.
        classes: [C] the classes as the labels named them that it was trained on, in the order of the columns of
            `predict_proba`; class names where it was trained on a cache or a table.
        is_refitted: whether the head was trained anew on training and selection rows.
    """

    head: TrainedHead
    record: RunRecord
    warnings: tuple[str, ...]
    classes: npt.NDArray[Any]
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

    def predict_proba(self, x: Vectors, prior: Prior | None = None) -> npt.NDArray[np.float64]:
        """Probabilities [N, C] of vectors x [N, D], or of columns by name where the head reads several.

        Args:
            x: the vectors, as `fit` takes them.
            prior: class prior where they come from, a share by class or [C]; None is that of the training rows, or what
                the head was fitted for.

        Raises:
            ValueError: they are no vectors of the head's columns and dimensions, a row is not finite, or the prior is
                none.
        """
        return np.asarray(self._log_p(self._under(prior), x).double().exp().numpy())

    def predict(self, x: Vectors, prior: Prior | None = None) -> npt.NDArray[Any]:
        """Predicted classes [N] of vectors x [N, D], by the head's thresholds and shifts where it has any.

        They are what the labels were that the head was trained on: integers for integers, text for text.

        Raises:
            ValueError: as `predict_proba`.
        """
        head = self._under(prior)
        return np.asarray(self.classes[head.decide(self._log_p(head, x)).numpy()])

    def save(self, folder: Path | str) -> None:
        """Write the head's bundle to a new folder, for `frostbench.load` and `frostbench predict`.

        Raises:
            FileExistsError: the folder exists already.
        """
        save(self.head, Path(folder))

    def _under(self, prior: Prior | None) -> TrainedHead:
        """The head for a prior, whose shares may be named by what the caller calls the classes."""
        if isinstance(prior, Mapping):
            names = dict(zip(self.classes.tolist(), self.class_names, strict=True))
            prior = {names.get(own, str(own)): share for own, share in prior.items()}
        return self.head.under(prior)

    def _log_p(self, head: TrainedHead, x: Vectors) -> Tensor:
        columns = vector_columns(x, self.head.columns[0], tokens=True)
        with np.errstate(over="ignore"):
            single = {name: torch.from_numpy(np.array(value, dtype=np.float32)) for name, value in columns.items()}
        log_p = head.log_probabilities(single)
        if log_p.isnan().any():
            row = int(log_p.isnan().any(1).nonzero()[0])
            raise ValueError(
                f"vectors are of the size of those that a head was trained on, however: row {row} is so large that its "
                "scores are not finite. Mend what made it, or leave it out."
            )
        return log_p

    def __repr__(self) -> str:
        """One line, since every number of the head and of its run would be tens of pages in a notebook."""
        f1 = self.metrics.get(MAIN)
        how = "" if f1 is None else f", {MAIN} {f1:.4f} on {ROLE_WORDS['select']}"
        refitted = ", refitted" if self.is_refitted else ""
        return f"<Fitted: {len(self.class_names)} classes, run {self.record.key}{how}{refitted}>"

    def __str__(self) -> str:
        shown = [f"  {name:20} {value:.4f}" for name, value in self.metrics.items() if value is not None]
        when = ", before the refit" if self.is_refitted else ""
        return "\n".join([f"head on {ROLE_WORDS['select']}, {self.record.reason}{when}", *shown, *self.warnings])


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """What a comparison found; printed, it is a sentence for each row and the tables.

    Attributes:
        comparison: the lines by row and metric, with delta, interval, p, verdict and what would settle it.
        warnings: what is to be said of the data, their split and the options; what runs say of themselves is among
            `comparison.notes`.
    """

    comparison: Comparison
    warnings: tuple[str, ...] = ()

    def verdict(self, row: str, metric: str = MAIN) -> str:
        """One sentence on a row against the baseline."""
        line, made = self.comparison.line(row, metric), self.comparison
        told = str(line["verdict"])
        word = {BETTER: "is better than", WORSE: "is worse than"}.get(told, "cannot be told from")
        known = math.isfinite(line["low"])
        span = f"95 % interval {line['low']:+.4f} to {line['high']:+.4f}" if known else "no interval"
        settling = settling_words(made, row, metric)
        more = f"; were it as large as it looks, {settling} would settle it" if settling else ""
        why = "".join(f"; {reason}" for key, reason in REASONS.items() if told.endswith(f"({key})"))
        return (
            f"{row!r} {word} {made.baseline!r} on {metric}: {line['value']:.4f}, difference {line['delta']:+.4f} "
            f"({span}; {made.n_groups} groups, {len(made.seeds)} seeds{why}){more}."
        )

    def __repr__(self) -> str:
        made = self.comparison
        rows = ", ".join(row for row in made.rows if row != made.baseline)
        return f"<Compared: {rows} against {made.baseline} on {made.n_rows} rows>"

    def __str__(self) -> str:
        rows = [row for row in self.comparison.rows if row != self.comparison.baseline]
        told = [warning for warning in self.warnings if warning not in self.comparison.notes]
        return "\n".join(map(self.verdict, rows)) + "\n\n" + "\n".join([to_text(self.comparison), *told])
