"""Decides among cross-validated candidates of preset `auto`."""

from collections.abc import Mapping, Sequence

import numpy as np

from frostbench.benchmarks.auto.candidates import Candidate
from frostbench.benchmarks.auto.held_out import HeldOut
from frostbench.benchmarks.auto.result import Choice, Tried
from frostbench.benchmarks.comparison.bootstrap import point_sums, resampled_sums
from frostbench.benchmarks.comparison.metrics import MAIN, metrics_of
from frostbench.benchmarks.settings.nouns import with_noun
from frostbench.benchmarks.settings.parsing import AUTO

RESAMPLES = 500
"""Resamples of the groups for the standard error of a difference."""


def best_of(
    found: HeldOut, candidates: Mapping[str, Candidate], folds: int, n_rows: int, left_out: Sequence[Tried]
) -> Choice:
    """Return the choice among the runs that were cross-validated.

    Args:
        found: predictions of held-out training rows.
        candidates: configurations by name.
        folds: number of folds, for the reason.
        n_rows: number of training rows, of which some may not have been used.
        left_out: candidates that were not tried.

    Raises:
        ValueError: all of them failed.
    """
    names = [name for name, predictions in found.predictions.items() if predictions.are_valid]
    problems = dict.fromkeys(found.predictions, "its predictions are not numbers") | found.problems
    if not names:
        name, why = next(iter(problems.items()))
        raise ValueError(
            f"Preset {AUTO} found no candidate that could be trained; {name}: {why} Choose another preset."
        )
    valid = [found.predictions[name] for name in names]
    metrics = [metrics_of(found.frame, sums) for sums in point_sums(found.frame, valid)]
    if MAIN not in metrics[0]:
        raise ValueError(f"Preset {AUTO} needs training rows of a foreground class. Correct `background`.")
    f1 = {name: float(values[MAIN][0]) for name, values in zip(names, metrics, strict=True)}
    nll = {name: float(values["nll"][0]) for name, values in zip(names, metrics, strict=True)}
    top = max(names, key=f1.__getitem__)
    close = [name for name in names if name == top or f1[top] - f1[name] <= _standard_error(found, top, name)]
    winner = min(close, key=nll.__getitem__)
    tried = [Tried(name, f1.get(name), nll.get(name), "" if name in f1 else problems[name]) for name in problems]
    rows = with_noun(len(found.frame.labels), "training row")
    if len(found.frame.labels) < n_rows:
        rows = f"{len(found.frame.labels)} of {n_rows} training rows"
    reason = _reason(winner, top, close, f1, nll) + f" in {folds}-fold cross-validation on {rows}"
    return Choice(winner, candidates[winner], (*tried, *left_out), reason)


def _standard_error(found: HeldOut, top: str, other: str) -> float:
    """Return the standard error of the difference in macro F1 of two runs, by the group bootstrap."""
    pair = [found.predictions[top], found.predictions[other]]
    deltas = [
        metrics_of(found.frame, first)[MAIN] - metrics_of(found.frame, second)[MAIN]
        for _, (first, second) in resampled_sums(found.frame, pair, RESAMPLES, 0)
    ]
    return float(np.concatenate(deltas).std(ddof=1))


def _reason(winner: str, top: str, close: Sequence[str], f1: Mapping[str, float], nll: Mapping[str, float]) -> str:
    if len(f1) == 1:
        return f"{winner} was the only candidate: macro F1 {f1[winner]:.3f}, NLL {nll[winner]:.3f}"
    if len(close) == 1:
        return f"{winner} has the highest macro F1 of {len(f1)} candidates, {f1[winner]:.3f},"
    lowest = f"{winner} has the lowest NLL ({nll[winner]:.3f}) of the {len(close)} candidates"
    if winner == top:
        return f"{lowest} within one standard error of the highest macro F1, its own {f1[top]:.3f},"
    return (
        f"{lowest} whose macro F1 ({f1[winner]:.3f}) is within one standard error of the highest ({top}, {f1[top]:.3f})"
    )
