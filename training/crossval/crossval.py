"""Cross-validation without separate validation and calibration rows: choices on held-out folds, then one final fit.

Epochs, tuned strengths, calibration and decisions are chosen from predictions for held-out rows. With these fixed, a
head is fitted to all rows; this is the head that is kept. It is evaluated by the out-of-fold predictions of the fold
heads, although it has seen more rows than any of them.

The prediction for a row uses only choices made without its fold, with two exceptions, which make metrics optimistic as
on validation rows: the epoch of the first of two stages, and anything a person chooses by looking at these metrics.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.checks.data import check_data
from frostbench.training.checks.streaming import check_folds_stream
from frostbench.training.crossval.epoch_choice import NO_EARLY_STOP, full_first_stage, full_second_stage, paced
from frostbench.training.crossval.fold_fits import (
    CrossValidationState,
    StoppedError,
    choose_epochs,
    fit_all_rows,
    numbers_in,
    predict_held_out,
)
from frostbench.training.crossval.fold_fits import FoldFitted as FoldFitted
from frostbench.training.crossval.out_of_fold import OutOfFoldChoices, choose_out_of_fold
from frostbench.training.data.part import Data
from frostbench.training.engine.events import Event, Finished, Started
from frostbench.training.engine.fit import never
from frostbench.training.engine.grouping import grouped
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class CrossValidated:
    """Result of a cross-validated run, with the final head fitted to all rows.

    Attributes:
        run: index of the run.
        finished: the head with the choices of the folds; its epoch refers to the mean learning curve over folds, and
            its seconds cover all fits of all runs that were fitted together.
        predictions: out-of-fold predictions for each row, with the calibration and decisions chosen by other folds;
            logits are -inf for classes that the fold head did not know.
        stack_size: number of runs that were fitted together.
    """

    run: int
    finished: Finished
    predictions: CrossFitted
    stack_size: int


def cross_validate(
    runs: Sequence[RunSpec],
    data: Data,
    folds: Tensor,
    stop: Callable[[], bool] = never,
    *,
    is_checked: bool = False,
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Choose epochs, strengths, calibration and decisions on held-out folds, and with these fit heads to all rows.

    Each run yields Started, FoldFitted after each fit, one Epoch for each epoch of the mean curve over all folds and
    repeats, and finally CrossValidated or Failed. Folds train without early stopping, for the number of epochs that
    the schedule gives for all rows, so that an epoch is at the same point of the schedule in every fit. The epoch with
    the highest row-weighted mean of early_stop.metric over held-out rows is kept. Predictions for a fold are made at
    the epoch that the other folds of its repeat choose. Runs that differ only in numbers form one stack in each fold.

    Args:
        runs: the runs. Each is evaluated on the repeat numbered seed modulo R, so that seeds also vary the folds.
        data: all rows as the training part; the other parts are ignored.
        folds: number [R, N] of the fold that holds out each training row, in each repeat.
        stop: called as in `fit`; stopped runs return no head.
        is_checked: whether the runs have passed `check_runs` on these data.

    Raises:
        ValueError: a run cannot be trained on data, or folds do not match its rows.
    """
    if not is_checked:
        check_runs(runs, data)
    if folds.ndim != 2 or folds.shape[1] != len(data.train) or any(len(numbers_in(repeat)) < 2 for repeat in folds):
        raise ValueError(
            f"Folds must be the fold numbers [R, N] of the {len(data.train)} training rows, with at least two folds in "
            f"each repeat, got shape {list(folds.shape)}. Pass the folds of these rows."
        )
    for numbers in groups_of(runs, data, len(folds)):
        try:
            yield from _cross_validate_group(_initial_state(numbers, runs, data, folds, stop))
        except StoppedError:
            return
        if stop():
            return


def predict_out_of_fold(
    runs: Sequence[RunSpec], data: Data, folds: Tensor, stop: Callable[[], bool] = never
) -> Iterator[Event | FoldFitted | tuple[int, CrossFitted]]:
    """Predict every row with a head that did not see it, without choosing epochs and without a final fit.

    For comparing runs that will be trained elsewhere: one fit per fold, where `cross_validate` needs two for heads that
    are trained by steps, and a final fit for all. Every fold trains for the number of epochs that the schedule gives
    for all rows, or that `early_stop.epoch` states. Calibration and decisions are fitted to other folds. Runs yield
    FoldFitted after each fit, and finally their index with predictions for each row, or Failed.

    Args:
        runs: the runs, whose second stages take no steps; each is evaluated on the first repeat.
        data: all rows as the training part; the other parts are ignored.
        folds: number [R, N] of the fold that holds out each training row.
        stop: called as in `fit`; stopped runs yield nothing.

    Raises:
        ValueError: a run cannot be trained on data, or has a second stage that takes steps.
    """
    check_runs(runs, data)
    if any(run.second.takes_steps for run in runs):
        raise ValueError("A second stage that takes steps needs its epochs chosen. Use `cross_validate`.")
    for numbers in grouped(runs, data):
        state = _initial_state(numbers, runs, data, folds[:1], stop)
        state.repeat, state.fits = 0, len(state.evaluated_folds)
        state.active = {number: _without_early_stop(run) for number, run in state.active.items()}
        try:
            for event in predict_held_out(state):
                if not isinstance(event, tuple):
                    yield event
                    continue
                number, out_of_fold = event
                try:
                    yield number, choose_out_of_fold(state.requested[number], out_of_fold).predictions
                except ValueError as error:
                    yield state.fail(number, str(error))
        except StoppedError:
            return


def _without_early_stop(run: RunSpec) -> RunSpec:
    """Return the run trained to the end of its schedule, or to the epoch that it states."""
    early_stop = NO_EARLY_STOP.model_copy(update={"epoch": run.train.early_stop.epoch})
    return run.model_copy(update={"train": run.train.model_copy(update={"early_stop": early_stop})})


def check_runs(runs: Sequence[RunSpec], data: Data) -> None:
    """Check that runs can be cross-validated on the training part of data.

    Raises:
        ValueError: a check of `frostbench.training.checks.data.check_data` fails, except those for missing validation
            and calibration rows, or a run has options that do not work with folds.
    """
    check_folds_stream(data)
    for run in runs:
        if run.second.refuses_folds:
            raise ValueError(run.second.refuses_folds)
    following = {kind for run in runs for kind in run.train.loss.following}
    if following:
        follow = "follow" if len(following) > 1 else "follows"
        raise ValueError(
            f"{' and '.join(sorted(following))} {follow} the calibration of validation rows during training, but in a "
            "split into folds these rows are needed for evaluation. Use a split without folds or another "
            "train.loss.point.kind."
        )
    if any(run.view_sets or run.tta for run in runs):
        raise ValueError(
            "View sets require a split without folds, because views of training rows would show held-out images. Use "
            "a split without folds, or remove view_sets and tta."
        )
    if any(run.shots for run in runs):
        raise ValueError(
            "shots draws other rows for each seed, but in a split into folds every row is evaluated, and must be the "
            "same for all seeds. Use a split without folds, or remove shots."
        )
    if data.train.images is not None:
        raise ValueError(
            "Cross-validation needs one training row per image, but these rows are views of images. Pass one row per "
            "image."
        )
    # The specs of the folds choose no epoch by a metric, because the classes that it counts differ from fold to fold.
    check_data([full_first_stage(run) for run in runs], replace(data, select=data.train, calibrate=data.train))


def groups_of(runs: Sequence[RunSpec], data: Data, repeats: int) -> list[list[int]]:
    """Group the indices of runs that are fitted together and evaluated on the same repeat."""
    groups: dict[tuple[int, int], list[int]] = {}
    for group, numbers in enumerate(grouped(runs, data)):
        for number in numbers:
            groups.setdefault((group, runs[number].seed % repeats), []).append(number)
    return list(groups.values())


def _initial_state(
    numbers: Sequence[int], runs: Sequence[RunSpec], data: Data, folds: Tensor, stop: Callable[[], bool]
) -> CrossValidationState:
    first, on_device = runs[numbers[0]], folds.to(data.train.labels.device)
    requested = {number: runs[number] for number in numbers}
    active = {number: paced(run, len(data.train)) for number, run in requested.items()}
    state = CrossValidationState(requested, active, data, on_device, first.seed % len(folds), stop, 0)
    stages = _is_stepped(first) + first.second.takes_steps
    state.fits = stages * len(state.all_folds) + len(state.evaluated_folds) + 1
    return state


def _is_stepped(run: RunSpec) -> bool:
    return not run.head.classifier.is_closed_form


def _cross_validate_group(state: CrossValidationState) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Cross-validate the runs of one stack from start to end."""
    began, stack_size, first = time.perf_counter(), len(state.active), next(iter(state.active.values()))
    for number, run in state.active.items():
        yield Started(number, run.epochs_for(len(state.data.train)) if _is_stepped(run) else 0)
    if _is_stepped(first):
        yield from choose_epochs(state, 0, lambda run, _: full_first_stage(run))
    if first.second.takes_steps and state.active:
        yield from choose_epochs(state, 1, full_second_stage)
    chosen: dict[int, OutOfFoldChoices] = {}
    for event in predict_held_out(state) if state.active else ():
        if not isinstance(event, tuple):
            yield event
            continue
        number, out_of_fold = event
        try:
            chosen[number] = choose_out_of_fold(state.requested[number], out_of_fold)
        except ValueError as error:
            yield state.fail(number, str(error))
    for event in fit_all_rows(state, chosen) if state.active else ():
        if isinstance(event, Finished):
            seconds = time.perf_counter() - began
            yield _result(state, event, chosen[event.run], seconds, stack_size)
        else:
            yield event


def _result(
    state: CrossValidationState, end: Finished, chosen: OutOfFoldChoices, seconds: float, stack_size: int
) -> CrossValidated:
    prior = state.requested[end.run].posthoc.deployed(end.head.class_names, end.head.priors.present)
    head = replace(end.head.under(prior), layers=chosen.layers, calibration=chosen.calibration)
    choices, epoch = state.epochs.get(end.run, []), end.epoch
    if len(choices) == 2 and epoch > choices[0].final:
        # The mean curve of the second stage continues after all epochs of the first one.
        epoch += state.active[end.run].train.schedule.epochs - choices[0].final
    finished = replace(end, head=head, epoch=epoch, seconds=seconds)
    return CrossValidated(end.run, finished, chosen.predictions, stack_size)
