"""Fitting runs of one skeleton fold by fold, and to all rows; what a cross-validation is made of."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from frostbench.heads.trained import TrainedHead
from frostbench.training.crossval.epoch_choice import Kept, fixed, kept_epoch, mean_course, watched_metric
from frostbench.training.crossval.out_of_fold import OutOfFold, OutOfFoldChoice
from frostbench.training.data.named import background_of
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Event, Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class FoldFitted:
    """A run was fitted once more on its way.

    Attributes:
        run: place of the run.
        done: fits so far.
        fits: how many it takes, the one to all rows included.
    """

    run: int
    done: int
    fits: int


class StoppedError(Exception):
    """The caller asked to stop before there was a result."""


@dataclass
class CrossValidationState:
    """Runs of one skeleton on their way through the folds.

    Attributes:
        asked: the runs as they were asked for, by place; those that fail are taken out.
        runs: the same with a fixed number of epochs.
        data: all rows as the training part.
        folds: [R, N].
        repeat: the one on whose folds they are judged.
        stop: whether to stop.
        fits: how many each run takes.
        done: fits so far.
        kept: of each run, the epochs that were chosen, stage by stage.
    """

    asked: dict[int, RunSpec]
    runs: dict[int, RunSpec]
    data: Data
    folds: Tensor
    repeat: int
    stop: Callable[[], bool]
    fits: int
    done: int = 0
    kept: dict[int, list[Kept]] = field(default_factory=dict)

    @property
    def judged(self) -> list[int]:
        """The folds that the runs are judged on."""
        return numbers_in(self.folds[self.repeat])

    @property
    def places(self) -> list[tuple[int, int]]:
        """Every repeat and fold."""
        return [(repeat, fold) for repeat, each in enumerate(self.folds) for fold in numbers_in(each)]

    def failed(self, run: int, message: str) -> Failed:
        """Take out a run that gives no head."""
        del self.runs[run]
        return Failed(run, message)


def numbers_in(folds: Tensor) -> list[int]:
    """The numbers that occur, ascending."""
    return sorted(set(folds.flatten().tolist()))


def fold_data(data: Data, held: Tensor) -> Data:
    """Training rows without the held-out ones [N], which select and calibrate."""
    outer = _rows(data.train, held)
    return Data(_rows(data.train, ~held), outer, outer, data.class_names)


def _rows(part: Part, chosen: Tensor) -> Part:
    columns = {name: x[chosen] for name, x in part.columns.items()}
    return Part(columns, part.labels[chosen], None if part.groups is None else part.groups[chosen])


def fitted(
    state: CrossValidationState, specs: Mapping[int, RunSpec], data: Data, where: str
) -> Iterator[Event | FoldFitted]:
    """Fit runs once; of those that fail only that is told, and where.

    Raises:
        StoppedError: the caller asked to stop, and some run was cut short or not begun.
    """
    if state.stop():
        raise StoppedError
    numbers, ended = list(specs), 0
    for event in fit(list(specs.values()), data, state.stop):
        number = numbers[event.run]
        if isinstance(event, Failed):
            yield state.failed(number, f"{where}: {event.message}")
        elif isinstance(event, Finished) and event.reason == "stopped":
            raise StoppedError
        else:
            yield replace(event, run=number)
        ended += isinstance(event, Failed | Finished)
    if ended < len(numbers):
        raise StoppedError
    state.done += 1
    yield from (FoldFitted(number, state.done, state.fits) for number in state.runs)


def watched(
    state: CrossValidationState, stage: int, watching: Callable[[RunSpec, int], RunSpec]
) -> Iterator[Event | FoldFitted]:
    """Train a stage to its end in every fold, choose its epoch, and tell the mean course of each run."""
    first = {number: kept[0].final for number, kept in state.kept.items()}
    courses: dict[int, list[list[Epoch]]] = {number: [] for number in state.runs}
    for repeat, fold in state.places:
        specs = {number: watching(run, first.get(number, 0)) for number, run in state.runs.items()}
        told: dict[int, list[Epoch]] = {number: [] for number in specs}
        held = state.folds[repeat] == fold
        for event in fitted(state, specs, fold_data(state.data, held), f"fold {fold + 1} of repeat {repeat + 1}"):
            if isinstance(event, Epoch):
                told[event.run].append(event)
            elif isinstance(event, Failed | FoldFitted):
                yield event
        for number, run in state.runs.items():
            last = run.train.schedule.epochs
            courses[number].append([e for e in told[number] if (e.epoch > first[number] if stage else e.epoch <= last)])
    yield from _chosen(state, stage, courses)


def _chosen(
    state: CrossValidationState, stage: int, courses: Mapping[int, Sequence[Sequence[Epoch]]]
) -> Iterator[Event]:
    rows = [int((state.folds[repeat] == fold).sum()) for repeat, fold in state.places]
    judged = {fold: place for place, (repeat, fold) in enumerate(state.places) if repeat == state.repeat}
    for number in list(state.runs):
        run = state.asked[number]
        before = state.runs[number].train.schedule.epochs if stage else 0
        if not all(courses[number]):
            yield state.failed(
                number,
                "each fold must reach the second stage, however: the first diverged in one. Lower train.optim.lr.",
            )
            continue
        metric = watched_metric(run, stage, state.data.train.labels, background_of(run, state.data))
        try:
            state.kept.setdefault(number, []).append(kept_epoch(run, stage, metric, courses[number], rows, judged))
        except ValueError as error:
            yield state.failed(number, str(error))
            continue
        yield from mean_course(number, courses[number], rows, before, metric)


def held_out(state: CrossValidationState) -> Iterator[Event | FoldFitted | tuple[int, OutOfFold]]:
    """Predict every row by a head that did not see it; what was predicted for each run comes last."""
    folds, labels = state.folds[state.repeat].cpu(), state.data.train.labels.cpu()
    logits: dict[int, list[Tensor]] = {number: [] for number in state.runs}
    priors: dict[int, list[Tensor]] = {number: [] for number in state.runs}
    for fold in state.judged:
        kept = {number: [each.without[fold] for each in state.kept.get(number, [])] for number in state.runs}
        specs = {number: fixed(run, kept[number]) for number, run in state.runs.items()}
        data = fold_data(state.data, state.folds[state.repeat] == fold)
        for event in fitted(state, specs, data, f"fold {fold + 1}"):
            if isinstance(event, Finished):
                logits[event.run].append(_logits(state.asked[event.run], event.head, data.select))
                log_prior = event.head.priors.implied.log()
                present = event.head.priors.present
                each = torch.where(present, log_prior, 0.0).to(logits[event.run][-1].dtype)
                priors[event.run].append(each.expand(len(data.select), -1))
            elif isinstance(event, Failed | FoldFitted):
                yield event
    order = torch.cat([(folds == fold).nonzero().squeeze(1) for fold in state.judged]).argsort()
    counts = torch.bincount(labels, minlength=len(state.data.class_names))
    for number in list(state.runs):
        background = background_of(state.asked[number], state.data)
        own, prior = torch.cat(logits[number], 1)[:, order], torch.cat(priors[number])[order]
        yield number, OutOfFold(own, prior, labels, folds, counts, background, state.data.class_names)


@torch.no_grad()
def _logits(run: RunSpec, head: TrainedHead, part: Part) -> Tensor:
    """Logits [P, M, C] of held-out rows: for each strength that a second stage chooses from, or P = 1 without."""
    columns = {name: part.columns[name].cpu() for name in head.columns}
    if not run.second.is_tuned:
        return head.logits(columns)[None]
    # The strength 0 that it was fitted with left the weights alone, and took the biases off.
    hidden, weight = head.head.hidden(head.features(columns)), head.head.classifier.state_dict()["weight"]
    each = torch.stack([hidden @ run.second.rescaled(weight, one).T for one in run.second.strengths])
    return each.masked_fill(~head.priors.present, -torch.inf)


def refitted(state: CrossValidationState, chosen: Mapping[int, OutOfFoldChoice]) -> Iterator[Event | FoldFitted]:
    """Fit to all rows what was chosen; the epochs on the way judge training rows and are not told."""
    specs = {}
    for number, run in state.runs.items():
        epochs = [each.final for each in state.kept.get(number, [])]
        specs[number] = fixed(run, epochs, chosen[number].power or 0.0, chosen[number].tau)
    data = replace(state.data, select=state.data.train, calibrate=state.data.train)
    for event in fitted(state, specs, data, "all rows"):
        if isinstance(event, Finished):
            yield FoldFitted(event.run, state.fits, state.fits)
        if isinstance(event, Finished | Failed):
            yield event
