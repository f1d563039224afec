"""The fits of a cross-validation: the runs of one stack, fitted fold by fold and finally to all rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from frostbench.heads.trained import TrainedHead
from frostbench.training.crossval.epoch_choice import EpochChoice, choose_epoch, fixed, mean_curve, metric_of_stage
from frostbench.training.crossval.out_of_fold import OutOfFold, OutOfFoldChoices
from frostbench.training.data.named import background_of
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Event, Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class FoldFitted:
    """The end of one of a run's fits.

    Attributes:
        run: index of the run.
        done: number of fits so far.
        fits: total number of fits, including the one to all rows.
    """

    run: int
    done: int
    fits: int


class StoppedError(Exception):
    """Raised when the caller stops the cross-validation before it has a result."""


@dataclass
class CrossValidationState:
    """Progress of the cross-validation of the runs of one stack.

    Attributes:
        requested: the requested runs, by index.
        active: the runs that have not failed, with a fixed number of epochs.
        data: all rows as the training part.
        folds: fold numbers [R, N].
        repeat: the repeat on whose folds the runs are evaluated.
        stop: callback that returns whether to stop.
        fits: total number of fits of each run.
        done: number of fits so far.
        epochs: chosen epochs of each run, stage by stage.
    """

    requested: dict[int, RunSpec]
    active: dict[int, RunSpec]
    data: Data
    folds: Tensor
    repeat: int
    stop: Callable[[], bool]
    fits: int
    done: int = 0
    epochs: dict[int, list[EpochChoice]] = field(default_factory=dict)

    @property
    def evaluated_folds(self) -> list[int]:
        """The folds that the runs are evaluated on."""
        return numbers_in(self.folds[self.repeat])

    @property
    def all_folds(self) -> list[tuple[int, int]]:
        """Every repeat and fold."""
        return [(repeat, fold) for repeat, folds in enumerate(self.folds) for fold in numbers_in(folds)]

    def fail(self, run: int, message: str) -> Failed:
        """Remove a run from the active ones and return its event."""
        del self.active[run]
        return Failed(run, message)


def numbers_in(folds: Tensor) -> list[int]:
    """Return the distinct fold numbers in ascending order."""
    return sorted(set(folds.flatten().tolist()))


def fold_data(data: Data, held_out: Tensor) -> Data:
    """Split the training rows by the mask held_out [N]; the held-out rows become validation and calibration rows."""
    outer = _rows(data.train, held_out)
    return Data(_rows(data.train, ~held_out), outer, outer, data.class_names)


def _rows(part: Part, chosen: Tensor) -> Part:
    columns = {name: x[chosen] for name, x in part.columns.items()}
    return Part(columns, part.labels[chosen], None if part.groups is None else part.groups[chosen])


def fit_once(
    state: CrossValidationState, specs: Mapping[int, RunSpec], data: Data, where: str
) -> Iterator[Event | FoldFitted]:
    """Fit each run once and yield events. Failures are yielded as `Failed`, with the fold in the message.

    Raises:
        StoppedError: the caller stopped the fit before all runs had finished.
    """
    if state.stop():
        raise StoppedError
    numbers, ended = list(specs), 0
    for event in fit(list(specs.values()), data, state.stop):
        number = numbers[event.run]
        if isinstance(event, Failed):
            yield state.fail(number, f"{where}: {event.message}")
        elif isinstance(event, Finished) and event.reason == "stopped":
            raise StoppedError
        else:
            yield replace(event, run=number)
        ended += isinstance(event, Failed | Finished)
    if ended < len(numbers):
        raise StoppedError
    state.done += 1
    yield from (FoldFitted(number, state.done, state.fits) for number in state.active)


def choose_epochs(
    state: CrossValidationState, stage: int, full_stage: Callable[[RunSpec, int], RunSpec]
) -> Iterator[Event | FoldFitted]:
    """Train a stage to its end in every fold, choose its epoch, and yield the mean curve of each run."""
    first = {number: choices[0].final for number, choices in state.epochs.items()}
    curves: dict[int, list[list[Epoch]]] = {number: [] for number in state.active}
    for repeat, fold in state.all_folds:
        specs = {number: full_stage(run, first.get(number, 0)) for number, run in state.active.items()}
        epochs: dict[int, list[Epoch]] = {number: [] for number in specs}
        data = fold_data(state.data, state.folds[repeat] == fold)
        for event in fit_once(state, specs, data, f"fold {fold + 1} of repeat {repeat + 1}"):
            if isinstance(event, Epoch):
                epochs[event.run].append(event)
            elif isinstance(event, Failed | FoldFitted):
                yield event
        for number, run in state.active.items():
            last = run.train.schedule.epochs
            curve = [e for e in epochs[number] if (e.epoch > first[number] if stage else e.epoch <= last)]
            curves[number].append(curve)
    yield from _choose_from_curves(state, stage, curves)


def _choose_from_curves(
    state: CrossValidationState, stage: int, curves: Mapping[int, Sequence[Sequence[Epoch]]]
) -> Iterator[Event]:
    rows = [int((state.folds[repeat] == fold).sum()) for repeat, fold in state.all_folds]
    evaluated = {fold: index for index, (repeat, fold) in enumerate(state.all_folds) if repeat == state.repeat}
    for number in list(state.active):
        run = state.requested[number]
        before = state.active[number].train.schedule.epochs if stage else 0
        if not all(curves[number]):
            yield state.fail(
                number,
                "every fold must reach the second stage, but the first stage diverged in one. Lower train.optim.lr.",
            )
            continue
        metric = metric_of_stage(run, stage, state.data.train.labels, background_of(run, state.data))
        try:
            choice = choose_epoch(run, stage, metric, curves[number], rows, evaluated)
        except ValueError as error:
            yield state.fail(number, str(error))
            continue
        state.epochs.setdefault(number, []).append(choice)
        yield from mean_curve(number, curves[number], rows, before, metric)


def predict_held_out(state: CrossValidationState) -> Iterator[Event | FoldFitted | tuple[int, OutOfFold]]:
    """Predict every row with a head that did not see it, and finally yield the predictions of each run."""
    folds, labels = state.folds[state.repeat].cpu(), state.data.train.labels.cpu()
    logits: dict[int, list[Tensor]] = {number: [] for number in state.active}
    priors: dict[int, list[Tensor]] = {number: [] for number in state.active}
    for fold in state.evaluated_folds:
        epochs = {number: [stage.without[fold] for stage in state.epochs.get(number, [])] for number in state.active}
        specs = {number: fixed(run, epochs[number]) for number, run in state.active.items()}
        data = fold_data(state.data, state.folds[state.repeat] == fold)
        for event in fit_once(state, specs, data, f"fold {fold + 1}"):
            if isinstance(event, Finished):
                logits[event.run].append(_logits(state.requested[event.run], event.head, data.select))
                present, log_prior = event.head.priors.present, event.head.priors.implied.log()
                log_prior = torch.where(present, log_prior, 0.0).to(logits[event.run][-1].dtype)
                priors[event.run].append(log_prior.expand(len(data.select), -1))
            elif isinstance(event, Failed | FoldFitted):
                yield event
    order = torch.cat([(folds == fold).nonzero().squeeze(1) for fold in state.evaluated_folds]).argsort()
    counts = torch.bincount(labels, minlength=len(state.data.class_names))
    for number in list(state.active):
        background = background_of(state.requested[number], state.data)
        z, log_prior = torch.cat(logits[number], 1)[:, order], torch.cat(priors[number])[order]
        yield number, OutOfFold(z, log_prior, labels, folds, counts, background, state.data.class_names)


@torch.no_grad()
def _logits(run: RunSpec, head: TrainedHead, part: Part) -> Tensor:
    """Return logits [P, M, C] of held-out rows for P candidate strengths of the second stage; P is 1 without tuning."""
    columns = {name: part.columns[name].cpu() for name in head.columns}
    if not run.second.is_tuned:
        return head.logits(columns)[None]
    # The head was fitted with strength 0, which leaves the weights unchanged and removes the biases.
    hidden, weight = head.head.hidden(head.features(columns)), head.head.classifier.state_dict()["weight"]
    logits = torch.stack([hidden @ run.second.rescaled(weight, strength).T for strength in run.second.strengths])
    return logits.masked_fill(~head.priors.present, -torch.inf)


def fit_all_rows(state: CrossValidationState, chosen: Mapping[int, OutOfFoldChoices]) -> Iterator[Event | FoldFitted]:
    """Fit the runs to all rows, with all choices fixed. Epochs are not reported: their metrics are on training rows."""
    specs = {}
    for number, run in state.active.items():
        epochs = [stage.final for stage in state.epochs.get(number, [])]
        specs[number] = fixed(run, epochs, chosen[number].power or 0.0, chosen[number].adjustment_strength)
    data = replace(state.data, select=state.data.train, calibrate=state.data.train)
    for event in fit_once(state, specs, data, "all rows"):
        if isinstance(event, Finished):
            yield FoldFitted(event.run, state.fits, state.fits)
        if isinstance(event, Finished | Failed):
            yield event
