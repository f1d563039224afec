"""Run specs for the fits of a cross-validation, and the choice of epochs from the metric curves of its folds."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from frostbench.heads.posthoc.spec import NoCalibration, PosthocSpec, PriorAdjustment
from frostbench.training.checks.metrics import epochs_metric
from frostbench.training.engine.events import Epoch
from frostbench.training.metrics.classification import NOTHING, Preference, preferred, to_raise
from frostbench.training.run import RunSpec
from frostbench.training.second_stage.protocol import SecondStage
from frostbench.training.spec.stage import EarlyStop

NO_EARLY_STOP = EarlyStop(metric="last", patience=100_000)


@dataclass(frozen=True)
class EpochChoice:
    """Chosen epochs of one stage.

    Attributes:
        final: epoch of the head that is fitted to all rows.
        without: by fold, epoch of the head that is fitted without that fold.
    """

    final: int
    without: dict[int, int]


def paced(run: RunSpec, rows: int) -> RunSpec:
    """Return the run with the number of epochs it would take on this many rows, whatever it is fitted to.

    An epoch is then at the same point of the schedule in every fold and on all rows.
    """
    first = run.train.schedule
    schedule = first.model_copy(update={"epochs": run.train.epochs_for(rows), "min_steps": 0})
    train = run.train.model_copy(update={"schedule": schedule})
    return run.model_copy(update={"train": train, "second": run.second.paced(first, rows)})


def full_first_stage(run: RunSpec) -> RunSpec:
    """Return the run with its first stage trained to the end; a second stage of gradient steps takes one epoch."""
    return _without_choices(run, NO_EARLY_STOP, run.second.shortened())


def full_second_stage(run: RunSpec, first_epoch: int) -> RunSpec:
    """Return the run with its first stage ended at an epoch and its second stage trained to the end."""
    return _without_choices(run, NO_EARLY_STOP.model_copy(update={"epoch": first_epoch}), run.second.watched())


def fixed(run: RunSpec, epochs: Sequence[int], power: float = 0.0, adjustment_strength: float = 0.0) -> RunSpec:
    """Return the run with fixed epochs, fixed strengths of its second stage and prior adjustment, and no calibration.

    `epochs` has one entry per stage of gradient steps.
    """
    stop = NO_EARLY_STOP.model_copy(update={"epoch": epochs[0]}) if epochs else run.train.early_stop
    second = run.second.kept_at(epochs[1]) if len(epochs) > 1 else run.second
    return _without_choices(run, stop, second, power, adjustment_strength)


def _without_choices(
    run: RunSpec, stop: EarlyStop, second: SecondStage, power: float = 0.0, adjustment_strength: float = 0.0
) -> RunSpec:
    train = run.train.model_copy(update={"early_stop": stop})
    posthoc = PosthocSpec(adjustment=PriorAdjustment(tau=adjustment_strength), calibration=NoCalibration())
    return run.model_copy(update={"train": train, "second": second.with_strength(power), "posthoc": posthoc})


def choose_epoch(
    run: RunSpec,
    stage: int,
    metric: str,
    curves: Sequence[Sequence[Epoch]],
    rows: Sequence[int],
    evaluated: dict[int, int],
) -> EpochChoice:
    """Choose a stage's epoch from the curves of all folds, and for each evaluated fold from the other evaluated folds.

    Args:
        run: the requested run; an epoch that it fixes is kept.
        stage: 0 or 1.
        metric: metric that chooses the epochs of this stage.
        curves: epochs of each fold.
        rows: number of held-out rows of each fold.
        evaluated: index into curves, by number of the evaluated fold.

    Raises:
        ValueError: no fold has a class that the metric counts.
    """
    values, nlls = _values(curves, metric)
    given = run.second.given_epoch if stage else run.train.early_stop.epoch
    if given is not None:
        final = min(given, min(map(len, values)))
        return EpochChoice(final, dict.fromkeys(evaluated, final))
    without = {}
    for fold in evaluated:
        others = [index for other, index in evaluated.items() if other != fold]
        without[fold] = best_epoch([values[i] for i in others], [nlls[i] for i in others], [rows[i] for i in others])
    return EpochChoice(best_epoch(values, nlls, rows), without)


def metric_of_stage(run: RunSpec, stage: int, labels: Tensor, background: Sequence[int]) -> str:
    """Return the metric that chooses the epoch of stage 0 or 1 on the held-out rows of all folds, with labels [N]."""
    first = run.train.early_stop.metric
    return epochs_metric(run.second.metric_after(first) if stage else first, labels, background)


Curve = Sequence[float | None]
"""One value per epoch of a fold; None if the fold has no class that the metric counts."""


def _values(curves: Sequence[Sequence[Epoch]], metric: str) -> tuple[list[Curve], list[Curve]]:
    """Return the curves of the metric, as values for which higher is better, and of the NLL."""
    return [[_value(e, metric) for e in curve] for curve in curves], [[e.metrics["nll"] for e in c] for c in curves]


def _value(event: Epoch, metric: str) -> float | None:
    if metric == "last":
        return float(event.epoch)
    return None if event.metrics[metric] is None else to_raise(event.metrics, metric)


def best_epoch(values: Sequence[Curve], nlls: Sequence[Curve], rows: Sequence[int]) -> int:
    """Return the epoch, from 1, with the highest row-weighted mean value over folds; ties go to the lowest NLL.

    A fold without a value at an epoch is ignored there. Epochs that some fold did not reach are not considered.

    >>> best_epoch([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [[1.2, 1.1, 1.0], [1.2, 1.1, 1.0]], [2, 1])
    2
    >>> best_epoch([[0.5, 0.5, 0.2]], [[1.2, 1.1, 1.0]], [1])
    2

    Raises:
        ValueError: no fold has a value at any epoch.
    """
    preferences = _preferences(values, nlls, rows)
    if all(preference == NOTHING for preference in preferences):
        raise ValueError(
            "An epoch is chosen by a metric on held-out rows, but no fold has a class that it counts. Choose another "
            "train.early_stop.metric."
        )
    return preferences.index(max(preferences)) + 1


def _preferences(values: Sequence[Curve], nlls: Sequence[Curve], rows: Sequence[int]) -> list[Preference]:
    """Return the preference of each epoch from its means over folds; NOTHING if no fold has a value."""
    means = zip(means_of(values, rows), means_of(nlls, rows), strict=True)
    return [NOTHING if value is None else preferred(value, nll) for value, nll in means]


def means_of(values: Sequence[Curve], rows: Sequence[int]) -> list[float | None]:
    """Return the row-weighted mean over folds for each epoch that all folds reached, or None if no fold has a value."""
    means: list[float | None] = []
    for of_epoch in zip(*values, strict=False):
        known = [(value, weight) for value, weight in zip(of_epoch, rows, strict=True) if value is not None]
        total = sum(weight for _, weight in known)
        means.append(sum(value * weight for value, weight in known) / total if total else None)
    return means


def mean_curve(
    run: int, curves: Sequence[Sequence[Epoch]], rows: Sequence[int], before: int, metric: str
) -> list[Epoch]:
    """Return the mean learning curve over folds, with epochs numbered from `before` + 1, after the earlier stage."""
    losses = means_of([[e.loss for e in curve] for curve in curves], rows)
    names, logged = curves[0][0].metrics, curves[0][0].logs
    metrics = {name: means_of([[e.metrics[name] for e in curve] for curve in curves], rows) for name in names}
    logs = {name: means_of([[e.logs[name] for e in curve] for curve in curves], rows) for name in logged}
    means, best, highest = [], 1, NOTHING
    preferences = _preferences(*_values(curves, metric), rows)
    for index, (loss, preference) in enumerate(zip(losses, preferences, strict=True)):
        if preference > highest:
            best, highest = index + 1, preference
        metrics_here = {name: values[index] for name, values in metrics.items()}
        logs_here = {name: value for name, values in logs.items() if (value := values[index]) is not None}
        means.append(Epoch(run, before + index + 1, loss or 0.0, metrics_here, before + best, logs_here))
    return means
