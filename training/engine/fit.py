"""The training engine: takes runs and data and yields events; the last event of each run holds its head."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from torch import nn

from frostbench.heads.head import fold_temperatures
from frostbench.training.checks.data import check_data
from frostbench.training.data.few_shot import few_shot
from frostbench.training.data.part import Data
from frostbench.training.engine.checkpoint import Checkpoints, Keeper
from frostbench.training.engine.closed_form import fit_closed_form, fit_closed_form_second
from frostbench.training.engine.events import Event, Failed, Finished, Reason, Started
from frostbench.training.engine.finish import finished, log_prior_in_logits
from frostbench.training.engine.grouping import grouped, skeleton_of
from frostbench.training.engine.memory import free_on, parts_that_fit
from frostbench.training.engine.objective import statistics_at
from frostbench.training.engine.run_context import RunContext, run_contexts
from frostbench.training.engine.stage_loop import StageFinished, run_stage
from frostbench.training.engine.stages import first_stage, second_stage, stepped_second
from frostbench.training.run import RunSpec

ENGINE_VERSION = 5
"""Part of every run key. Increment it when a change to the engine changes what a run returns."""


def never() -> bool:
    """Return False: the default `stop` callback."""
    return False


def fit(
    runs: Sequence[RunSpec],
    data: Data,
    stop: Callable[[], bool] = never,
    checkpoints: Checkpoints | None = None,
    *,
    is_checked: bool = False,
) -> Iterator[Event]:
    """Train runs on data and yield events.

    Runs that differ only in numbers are trained as one stack (see `frostbench.training.engine.grouping`), and their
    epochs are reported in turn; all other runs are trained one after another. On the CPU, the same runs in the same
    stacks on the same data, thread count and machine give bit-identical heads. If a stack holds other runs, or is
    split because memory is short, a head is the same up to rounding. `stop` is called after every epoch and before a
    second stage. A stopped run still returns the best head of its current stage, and later runs are not started.

    A run whose loss becomes non-finite ends there and returns the best epoch of that stage. It fails if it has no
    such epoch; the other runs continue.

    With checkpoints, a stack interrupted by a crash or a stop resumes from its last checkpoint (first stages only) and
    reports its earlier epochs again. Its heads equal those of an uninterrupted stack: bit for bit if all heads resume,
    up to rounding if some had finished. `is_checked` skips `check_data` for runs and data that have passed it.

    Raises:
        ValueError: a run cannot be trained on data (see `frostbench.training.checks.data`), or does not fit in memory.
    """
    if not is_checked:
        check_data(runs, data)
    free = free_on(data.train.labels.device)
    stacks = [
        part
        for numbers in grouped(runs, data)
        for part in parts_that_fit(numbers, runs, few_shot(runs[numbers[0]], data), free)
    ]
    for numbers in stacks:
        for event in _fit_stack(numbers, runs, few_shot(runs[numbers[0]], data), stop, checkpoints):
            yield replace(event, stack_size=len(numbers)) if isinstance(event, Finished) else event
        if stop():
            return


def _fit_stack(
    numbers: Sequence[int],
    runs: Sequence[RunSpec],
    data: Data,
    stop: Callable[[], bool],
    checkpoints: Checkpoints | None,
) -> Iterator[Event]:
    contexts = run_contexts(numbers, runs, data)
    if runs[numbers[0]].head.classifier.is_closed_form:
        yield from (Started(number, 0) for number in numbers)
        yield from fit_closed_form(contexts)
    else:
        keeper = Keeper(checkpoints, contexts, skeleton_of(runs[numbers[0]])) if checkpoints else None
        yield from _fit_with_steps(contexts, stop, keeper)


def _fit_with_steps(contexts: Sequence[RunContext], stop: Callable[[], bool], keeper: Keeper | None) -> Iterator[Event]:
    """Train the heads of a stack by gradient steps in one or two stages, keeping the best epoch of each head."""
    for context in contexts:
        yield Started(context.number, context.run.epochs_for(context.rows.table_rows))
    waiting: list[StageFinished] = []
    is_complete = True
    for event in run_stage(first_stage(contexts), [0] * len(contexts), stop, keeper):
        if not isinstance(event, StageFinished):
            yield event
            continue
        if event.core.tau is not None:
            fold_temperatures(event.context.head, event.core.tau)
        if event.context.run.second.is_none or event.reason in ("stopped", "diverged"):
            is_complete &= event.reason != "stopped"
            yield _result_of_first(event)
        else:
            waiting.append(event)
    if waiting and stop():
        is_complete = False
        yield from (_result_of_first(event, "stopped") for event in waiting)
    elif waiting:
        yield from _fit_second(waiting, stop)
    if keeper and is_complete:
        keeper.remove()


def _fit_second(waiting: Sequence[StageFinished], stop: Callable[[], bool]) -> Iterator[Event]:
    """Run the second stage, which is of the same kind for all heads."""
    if not waiting[0].context.run.second.takes_steps:
        for event in waiting:
            yield from fit_closed_form_second(event.context, (event.epoch,))
        return
    # The second stage changes or replaces the classifier, and the one from the first stage may be needed again.
    before = {event.context.number: copy.deepcopy(event.context.head.classifier) for event in waiting}
    stage = second_stage([event.context for event in waiting], [event.recall_many for event in waiting])
    first = {event.context.number: event for event in waiting}
    for result in run_stage(stage, [event.last for event in waiting], stop):
        if isinstance(result, StageFinished):
            number = result.context.number
            yield _result_of_second(first[number], result, before[number])
        else:
            yield result


def _result_of_first(
    event: StageFinished, reason: Reason | None = None, epochs: tuple[int, ...] | None = None
) -> Finished | Failed:
    """Return the result of a head whose last stage is the first one."""
    context, optim = event.context, event.context.run.train.optim
    if event.epoch == 0:
        return _diverged(event, "train.optim.lr", optim.lr)
    statistics = statistics_at(context.statistics, context.run.train, event.progress)
    carried = log_prior_in_logits(context.run.train.loss, statistics)
    return finished(context, statistics, carried, reason or event.reason, event.epoch, epochs or (event.epoch,))


def _result_of_second(first: StageFinished, event: StageFinished, before: nn.Module) -> Finished | Failed:
    """Return the result of a head after its second stage; `before` is its classifier from the first stage."""
    context, second = event.context, stepped_second(event.context.run)
    if event.epoch == 0 and event.reason == "diverged":
        return _diverged(event, "second.lr", second.lr)
    if event.epoch == 0:
        context.head.classifier = before
        return _result_of_first(first, event.reason, (first.epoch, 0))
    second.fold(context.head, event.core)
    spec = second.stage_spec(context.run.train)
    statistics = statistics_at(second.statistics(context.statistics), spec, event.progress)
    epochs = (first.epoch, event.epoch - first.last)
    return finished(context, statistics, log_prior_in_logits(spec.loss, statistics), event.reason, event.epoch, epochs)


def _diverged(event: StageFinished, option: str, value: float) -> Failed:
    return Failed(
        event.context.number,
        f"the training loss must stay finite, but it diverged in epoch {event.last}, before any epoch could be kept. "
        f"Lower {option}, now {value:g}.",
    )
