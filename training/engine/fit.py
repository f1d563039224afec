"""The engine: runs and data in, events out; the last event of each run holds its head."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from torch import nn

from frostbench.heads.head import fold_temperatures
from frostbench.training.checks.data import check_data
from frostbench.training.data.part import Data
from frostbench.training.engine.checkpoint import Checkpoints, Keeper
from frostbench.training.engine.closed_form import closed, closed_second
from frostbench.training.engine.events import Event, Failed, Finished, Reason, Started
from frostbench.training.engine.finish import finished, log_prior_in_logits
from frostbench.training.engine.grouping import grouped, skeleton_of
from frostbench.training.engine.memory import free_bytes, parts_that_fit
from frostbench.training.engine.objective import statistics_at
from frostbench.training.engine.run_context import RunContext, run_contexts
from frostbench.training.engine.stage_loop import Ended, run_stage
from frostbench.training.engine.stages import first_stage, second_stage, stepped_second
from frostbench.training.run import RunSpec

ENGINE_VERSION = 5
"""Part of every run key; raised when a change here changes what a run returns."""


def never() -> bool:
    """A stop question that is always answered with no."""
    return False


def fit(
    runs: Sequence[RunSpec],
    data: Data,
    stop: Callable[[], bool] = never,
    checkpoints: Checkpoints | None = None,
) -> Iterator[Event]:
    """Train runs on data and yield what happens.

    Runs that differ in numbers alone are trained as one stack (see `frostbench.training.engine.grouping`), and their
    epochs are reported by turns; else one run follows the other. The same runs in the same stacks, data, thread count
    and machine give the same heads bit for bit on the CPU. With other runs beside it, or where too little memory cuts a
    stack, a head is the same up to rounding. `stop` is asked after every epoch and before a second stage; a stopped run
    still returns the best head of the stage it was in, and later runs are not begun.

    A run whose loss stops being finite ends there and returns the best epoch of that stage; one that has none has
    failed, and the others go on.

    With checkpoints, a stack that was cut off, by a crash or a stop, goes on from its last one (first stages only); its
    epochs from before are told again. Its heads are those of a stack that was not cut off: bit for bit if all of them
    go on, up to rounding if some had finished.

    Raises:
        ValueError: a run cannot be trained on data (see `frostbench.training.checks.data`), or does not fit into
            memory.
    """
    check_data(runs, data)
    stacks = [part for numbers in grouped(runs, data) for part in parts_that_fit(numbers, runs, data, free_bytes(data))]
    for numbers in stacks:
        for event in _fit_stack(numbers, runs, data, stop, checkpoints):
            yield replace(event, together=len(numbers)) if isinstance(event, Finished) else event
        if stop():
            return


def _fit_stack(
    numbers: Sequence[int],
    runs: Sequence[RunSpec],
    data: Data,
    stop: Callable[[], bool],
    checkpoints: Checkpoints | None,
) -> Iterator[Event]:
    """Train the runs of one skeleton."""
    contexts = run_contexts(numbers, runs, data)
    if runs[numbers[0]].head.classifier.is_closed_form:
        yield from (Started(number, 0) for number in numbers)
        yield from closed(contexts)
    else:
        keeper = Keeper(checkpoints, contexts, skeleton_of(runs[numbers[0]])) if checkpoints else None
        yield from _step(contexts, stop, keeper)


def _step(contexts: Sequence[RunContext], stop: Callable[[], bool], keeper: Keeper | None) -> Iterator[Event]:
    """Train heads of one skeleton by gradient steps, in one stage or two; of each the best epoch is kept."""
    for context in contexts:
        yield Started(context.number, context.run.epochs_for(context.rows.table_rows))
    later: list[Ended] = []
    is_whole = True
    for event in run_stage(first_stage(contexts), [0] * len(contexts), stop, keeper):
        if not isinstance(event, Ended):
            yield event
            continue
        if event.core.tau is not None:
            fold_temperatures(event.context.head, event.core.tau)
        if event.context.run.second.is_none or event.reason in ("stopped", "diverged"):
            is_whole &= event.reason != "stopped"
            yield _after_first(event)
        else:
            later.append(event)
    if later and stop():
        is_whole = False
        yield from (_after_first(event, "stopped") for event in later)
    elif later:
        yield from _second(later, stop)
    if keeper and is_whole:
        keeper.remove()


def _second(later: Sequence[Ended], stop: Callable[[], bool]) -> Iterator[Event]:
    """What follows the first stage of heads whose second is alike."""
    if not later[0].context.run.second.takes_steps:
        for event in later:
            yield from closed_second(event.context, (event.epoch,))
        return
    # The second stage changes the classifier or replaces it, and the first may have to come back.
    before = {event.context.number: copy.deepcopy(event.context.head.classifier) for event in later}
    stage = second_stage([event.context for event in later], [event.recall_many for event in later])
    first = {event.context.number: event for event in later}
    for told in run_stage(stage, [event.last for event in later], stop):
        if isinstance(told, Ended):
            number = told.context.number
            yield _after_second(first[number], told, before[number])
        else:
            yield told


def _after_first(
    event: Ended, reason: Reason | None = None, epochs: tuple[int, ...] | None = None
) -> Finished | Failed:
    """What is told of a head whose last stage was the first."""
    context, optim = event.context, event.context.run.train.optim
    if event.epoch == 0:
        return _failed(event, "train.optim.lr", optim.lr)
    statistics = statistics_at(context.statistics, context.run.train, event.progress)
    carried = log_prior_in_logits(context.run.train.loss, statistics)
    return finished(context, statistics, carried, reason or event.reason, event.epoch, epochs or (event.epoch,))


def _after_second(first: Ended, event: Ended, before: nn.Module) -> Finished | Failed:
    """What is told of a head that ended its second stage of gradient steps, with the classifier from before it."""
    context, second = event.context, stepped_second(event.context.run)
    if event.epoch == 0 and event.reason == "diverged":
        return _failed(event, "second.lr", second.lr)
    if event.epoch == 0:
        context.head.classifier = before
        return _after_first(first, event.reason, (first.epoch, 0))
    second.fold(context.head, event.core)
    spec = second.stage_spec(context.run.train)
    statistics = statistics_at(second.statistics(context.statistics), spec, event.progress)
    epochs = (first.epoch, event.epoch - first.last)
    return finished(context, statistics, log_prior_in_logits(spec.loss, statistics), event.reason, event.epoch, epochs)


def _failed(event: Ended, option: str, value: float) -> Failed:
    return Failed(
        event.context.number,
        f"training must keep a finite loss, however: it diverged in epoch {event.last}, before any was good enough to "
        f"keep. Lower {option}, which is {value:g}.",
    )
