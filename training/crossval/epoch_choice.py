"""Runs as a cross-validation fits them: watched to the end, or with everything fixed; and the mean of their courses."""

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

TO_THE_END = EarlyStop(metric="last", patience=100_000)


@dataclass(frozen=True)
class Kept:
    """Which epoch of a stage is kept.

    Attributes:
        final: by the head that is fitted to all rows.
        without: by the head that does not see a fold, for each fold.
    """

    final: int
    without: dict[int, int]


def paced(run: RunSpec, rows: int) -> RunSpec:
    """The run with the epochs that it takes on that many rows, whatever the number of rows it is fitted to.

    An epoch is then at the same point of the schedule in every fold and on all rows.
    """
    first = run.train.schedule
    schedule = first.model_copy(update={"epochs": run.train.epochs_for(rows), "min_steps": 0})
    train = run.train.model_copy(update={"schedule": schedule})
    return run.model_copy(update={"train": train, "second": run.second.paced(first, rows)})


def watching_first(run: RunSpec) -> RunSpec:
    """The run with its first stage trained to the end; a second of gradient steps is cut to one epoch."""
    return _plain(run, TO_THE_END, run.second.shortened())


def watching_second(run: RunSpec, first: int) -> RunSpec:
    """The run with its first stage ended at an epoch, and its second trained to the end."""
    return _plain(run, TO_THE_END.model_copy(update={"epoch": first}), run.second.watched())


def fixed(run: RunSpec, epochs: Sequence[int], power: float = 0.0, tau: float = 0.0) -> RunSpec:
    """The run with the epochs of its stages, the strength of its second stage and the post-hoc strength given.

    A stage without gradient steps has no epoch. It is not calibrated.
    """
    stop = TO_THE_END.model_copy(update={"epoch": epochs[0]}) if epochs else run.train.early_stop
    second = run.second.kept_at(epochs[1]) if len(epochs) > 1 else run.second
    return _plain(run, stop, second, power, tau)


def _plain(run: RunSpec, stop: EarlyStop, second: SecondStage, power: float = 0.0, tau: float = 0.0) -> RunSpec:
    train = run.train.model_copy(update={"early_stop": stop})
    posthoc = PosthocSpec(adjustment=PriorAdjustment(tau=tau), calibration=NoCalibration())
    return run.model_copy(update={"train": train, "second": second.with_strength(power), "posthoc": posthoc})


def kept_epoch(
    run: RunSpec,
    stage: int,
    metric: str,
    courses: Sequence[Sequence[Epoch]],
    rows: Sequence[int],
    judged: dict[int, int],
) -> Kept:
    """The epoch of a stage to keep, by the courses of all folds; with that for each judged fold, by the others of them.

    Args:
        run: as it was asked for; an epoch that it states is kept.
        stage: 0 or 1.
        metric: that epochs of this stage are chosen by.
        courses: of each fold, what was told of its epochs.
        rows: held-out rows of each fold.
        judged: fold number to its place among the courses.

    Raises:
        ValueError: no fold has a class that the metric counts.
    """
    values = [[_value(event, metric) for event in course] for course in courses]
    nlls = [[event.metrics["nll"] for event in course] for course in courses]
    given = run.second.given_epoch if stage else run.train.early_stop.epoch
    if given is not None:
        final = min(given, min(map(len, values)))
        return Kept(final, dict.fromkeys(judged, final))
    without = {}
    for fold in judged:
        others = [place for other, place in judged.items() if other != fold]
        seen, losses = [values[i] for i in others], [nlls[i] for i in others]
        without[fold] = best_epoch(seen, losses, [rows[i] for i in others])
    return Kept(best_epoch(values, nlls, rows), without)


def watched_metric(run: RunSpec, stage: int, labels: Tensor, background: Sequence[int]) -> str:
    """The metric that an epoch of a stage, 0 or 1, is chosen by on the held-out rows of all folds, with labels [N]."""
    first = run.train.early_stop.metric
    return epochs_metric(run.second.metric_after(first) if stage else first, labels, background)


def _value(event: Epoch, metric: str) -> float | None:
    """What decides about an epoch, to be raised; None where its fold has no class that the metric counts."""
    if metric == "last":
        return float(event.epoch)
    return None if event.metrics[metric] is None else to_raise(event.metrics, metric)


Course = Sequence[float | None]
"""A value of each epoch of a fold; None where the fold has no class that it counts."""


def best_epoch(values: Sequence[Course], nlls: Sequence[Course], rows: Sequence[int]) -> int:
    """The epoch, from 1, with the highest mean value over folds, weighted by their rows; of equals that of lowest NLL.

    A fold in which a metric has no class to average does not count at that epoch. Epochs that some fold did not reach
    are left out.

    >>> best_epoch([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [[1.2, 1.1, 1.0], [1.2, 1.1, 1.0]], [2, 1])
    2
    >>> best_epoch([[0.5, 0.5, 0.2]], [[1.2, 1.1, 1.0]], [1])
    2

    Raises:
        ValueError: no fold has a value at any epoch.
    """
    means = [(each, -epoch) for epoch, each in enumerate(_preferences(values, nlls, rows), start=1) if each != NOTHING]
    if not means:
        raise ValueError(
            "an epoch is chosen by a metric of held-out rows, however: no fold has a class that it counts. Choose "
            "another train.early_stop.metric."
        )
    return -max(means)[1]


def _preferences(values: Sequence[Course], nlls: Sequence[Course], rows: Sequence[int]) -> list[Preference]:
    """What decides at each epoch by its means over folds; NOTHING where no fold has a value."""
    means = zip(means_of(values, rows), means_of(nlls, rows), strict=True)
    return [NOTHING if value is None else preferred(value, nll) for value, nll in means]


def means_of(values: Sequence[Course], rows: Sequence[int]) -> list[float | None]:
    """The mean over folds of each epoch that all of them reached, weighted by rows; None where no fold has a value."""
    means: list[float | None] = []
    for each in zip(*values, strict=False):
        known = [(value, weight) for value, weight in zip(each, rows, strict=True) if value is not None]
        total = sum(weight for _, weight in known)
        means.append(sum(value * weight for value, weight in known) / total if total else None)
    return means


def mean_course(
    run: int, courses: Sequence[Sequence[Epoch]], rows: Sequence[int], before: int, metric: str
) -> list[Epoch]:
    """The mean over folds of loss and metrics of each epoch, numbered after those before this stage."""
    names = list(courses[0][0].metrics)
    losses = means_of([[event.loss for event in course] for course in courses], rows)
    metrics = {name: means_of([[e.metrics[name] for e in course] for course in courses], rows) for name in names}
    logged = {
        name: means_of([[e.logs[name] for e in course] for course in courses], rows) for name in courses[0][0].logs
    }
    values = [[_value(event, metric) for event in course] for course in courses]
    nlls = [[event.metrics["nll"] for event in course] for course in courses]
    told, best, highest = [], 1, NOTHING
    for epoch, (loss, value) in enumerate(zip(losses, _preferences(values, nlls, rows), strict=True), start=1):
        if value > highest:
            best, highest = epoch, value
        each = {name: means[epoch - 1] for name, means in metrics.items()}
        logs = {name: mean for name, means in logged.items() if (mean := means[epoch - 1]) is not None}
        told.append(Epoch(run, before + epoch, loss or 0.0, each, before + best, logs))
    return told
