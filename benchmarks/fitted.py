"""Results of the Python API: a trained head with its run, and a comparison with its verdicts."""

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
from frostbench.benchmarks.auto.result import Choice
from frostbench.benchmarks.comparison.compare import ROLE_WORDS, Comparison
from frostbench.benchmarks.comparison.deltas import BETTER, REASONS, WORSE
from frostbench.benchmarks.comparison.tables import MAIN, settling_words, to_text
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.heads.bundle.export import save
from frostbench.heads.shares import Prior
from frostbench.heads.trained import TrainedHead


@dataclass(frozen=True, eq=False, repr=False)
class Fitted:
    """A trained head with its record and metrics, as returned by `frostbench.fit`.

    Attributes:
        head: trained head.
        record: record of the run; for a refitted head, of the run before the refit.
        warnings: warnings about data, split, options and training.
        classes: [C] classes as given in the labels, in the order of the columns of `predict_proba`; class names if the
            head was trained on a cache or a table.
        is_refitted: whether the head was trained again on training and validation rows.
        choice: how preset auto chose the configuration, or None if a preset was named.

    Example:
        >>> fitted = frostbench.fit(x, labels)  # doctest: +SKIP
        >>> print(fitted)  # doctest: +SKIP
        >>> fitted.predict_proba(new_x)  # doctest: +SKIP
        >>> fitted.save("bundle")  # doctest: +SKIP
    """

    head: TrainedHead
    record: RunRecord
    warnings: tuple[str, ...]
    classes: npt.NDArray[Any]
    is_refitted: bool = False
    choice: Choice | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """C class names, in the order of the columns of `predict_proba`."""
        return self.head.class_names

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metrics of the validation rows by name, such as macro_f1_fg; empty if the split has no such rows.

        For a refitted head they are from before the refit, since the refitted head has seen these rows.
        """
        evaluation = self.record.evaluations.get("select")
        return {} if evaluation is None else dict(evaluation.metrics)

    def predict_proba(self, x: Vectors, prior: Prior | None = None) -> npt.NDArray[np.float64]:
        """Return the class probabilities [N, C] of vectors.

        Args:
            x: vectors [N, D], tokens [N, T, D] if the head pools them, or a mapping of column names to these if the
                head reads several columns.
            prior: class prior of the data that the vectors come from, as shares by class or an array [C]. None uses the
                prior that the head was fitted for, by default that of the training rows.

        Raises:
            ValueError: the vectors do not match the head's columns and dimensions, a row is not finite, or the prior is
                invalid.
        """
        return np.asarray(self._log_p(self._under(prior), x).double().exp().numpy())

    def predict(self, x: Vectors, prior: Prior | None = None) -> npt.NDArray[Any]:
        """Return the predicted classes [N] of vectors, using the head's thresholds and shifts if it has any.

        Classes have the type of the labels that the head was trained on, for example integers. The arguments are those
        of `predict_proba`.

        Raises:
            ValueError: as in `predict_proba`.
        """
        head = self._under(prior)
        return np.asarray(self.classes[head.decide(self._log_p(head, x)).numpy()])

    def save(self, folder: Path | str) -> None:
        """Write the head's bundle to a new folder, for `frostbench.load` and `frostbench predict`.

        Raises:
            FileExistsError: the folder already exists.
        """
        save(self.head, Path(folder))

    def _under(self, prior: Prior | None) -> TrainedHead:
        """Return the head for a prior, whose shares may be keyed by the caller's classes."""
        if isinstance(prior, Mapping):
            names = dict(zip(self.classes.tolist(), self.class_names, strict=True))
            prior = {names.get(key, str(key)): share for key, share in prior.items()}
        return self.head.under(prior)

    def _log_p(self, head: TrainedHead, x: Vectors) -> Tensor:
        columns = vector_columns(x, self.head.columns[0], tokens=True)
        with np.errstate(over="ignore"):
            single = {name: torch.from_numpy(np.array(value, dtype=np.float32)) for name, value in columns.items()}
        log_p = head.log_probabilities(single)
        if log_p.isnan().any():
            row = int(log_p.isnan().any(1).nonzero()[0])
            raise ValueError(
                f"Vectors must have the scale of the training vectors, but row {row} is so large that its scores are "
                "not finite. Fix or remove it."
            )
        return log_p

    def __repr__(self) -> str:
        """Return one line; the default would print every number of the head and its run."""
        f1 = self.metrics.get(MAIN)
        how = "" if f1 is None else f", {MAIN} {f1:.4f} on {ROLE_WORDS['select']}"
        refitted = ", refitted" if self.is_refitted else ""
        return f"<Fitted: {with_noun(len(self.class_names), 'class')}, run {self.record.key}{how}{refitted}>"

    def __str__(self) -> str:
        shown = [f"  {name:20} {value:.4f}" for name, value in self.metrics.items() if value is not None]
        when = ", before the refit" if self.is_refitted else ""
        chosen = [] if self.choice is None else [f"auto: {self.choice.reason}"]
        return "\n".join(
            [f"head on {ROLE_WORDS['select']}, {self.record.reason}{when}", *shown, *chosen, *self.warnings]
        )


@dataclass(frozen=True, eq=False, repr=False)
class Compared:
    """Result of `frostbench.compare`; print it for a sentence per row and the tables.

    Attributes:
        comparison: the comparison; its `table` has difference, interval, p value and verdict by row and metric.
        warnings: warnings about data, split and options; notes on the runs are in `comparison.notes`.

    Example:
        >>> compared = frostbench.compare(x, labels, rows)  # doctest: +SKIP
        >>> print(compared)  # doctest: +SKIP
        >>> compared.comparison.table  # a DataFrame  # doctest: +SKIP
    """

    comparison: Comparison
    warnings: tuple[str, ...] = ()

    def verdict(self, row: str, metric: str = MAIN) -> str:
        """Return one sentence that compares a row with the baseline on a metric.

        Raises:
            SettingsError: the comparison has no such row or metric.
        """
        line, made = self.comparison.line(row, metric), self.comparison
        verdict = str(line["verdict"])
        relation = {BETTER: "is better than", WORSE: "is worse than"}.get(verdict, "cannot be distinguished from")
        has_interval = math.isfinite(line["low"])
        interval = f"95 % interval {line['low']:+.4f} to {line['high']:+.4f}" if has_interval else "no interval"
        settling = settling_words(made, row, metric)
        more = f"; if the difference is as large as estimated, {settling} would settle it" if settling else ""
        why = "".join(f"; {reason}" for key, reason in REASONS.items() if verdict.endswith(f"({key})"))
        return (
            f"{row!r} {relation} {made.baseline!r} on {metric}: {line['value']:.4f}, difference {line['delta']:+.4f} "
            f"({interval}; {with_noun(made.n_groups, 'group')}, {with_noun(len(made.seeds), 'seed')}{why}){more}."
        )

    def __repr__(self) -> str:
        made = self.comparison
        rows = ", ".join(row for row in made.rows if row != made.baseline)
        return f"<Compared: {rows} against {made.baseline} on {with_noun(made.n_rows, 'row')}>"

    def __str__(self) -> str:
        rows = [row for row in self.comparison.rows if row != self.comparison.baseline]
        warnings = [warning for warning in self.warnings if warning not in self.comparison.notes]
        return "\n".join(map(self.verdict, rows)) + "\n\n" + "\n".join([to_text(self.comparison), *warnings])
