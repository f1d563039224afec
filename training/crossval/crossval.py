"""Cross-validation where there are no rows apart to select and to calibrate: choices on held-out folds, then one fit.

The epoch, the power and strength that are tuned, calibration and decisions come from predictions for held-out rows.
Then a head is fitted to all rows with these fixed: it is the one that is kept. Its quality is told by the predictions
for held-out rows, which heads of the folds made; the head itself has seen more rows than any of them.

What helps to predict a row was chosen without its fold, save two things: the epoch of the first of two stages, and
whatever a person chooses by looking at these figures. Those are optimistic, as they are on selection rows.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from frostbench.heads.posthoc.crossfit import CrossFitted
from frostbench.training.checks.data import check_data
from frostbench.training.checks.streaming import check_folds_stream
from frostbench.training.crossval.epoch_choice import paced, watching_first, watching_second
from frostbench.training.crossval.fold_fits import (
    CrossValidationState,
    StoppedError,
    held_out,
    numbers_in,
    refitted,
    watched,
)
from frostbench.training.crossval.fold_fits import FoldFitted as FoldFitted
from frostbench.training.crossval.out_of_fold import OutOfFold, OutOfFoldChoice, choose_out_of_fold
from frostbench.training.data.part import Data
from frostbench.training.engine.events import Event, Finished, Started
from frostbench.training.engine.fit import never
from frostbench.training.engine.grouping import grouped
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class CrossValidated:
    """A run ended with a head that was fitted to all rows.

    Attributes:
        run: place of the run.
        finished: its head, with what the folds chose; its epoch is that of the mean course which was told, and its
            seconds are those of everything, for all runs that were fitted together.
        answers: for each row by a head that did not see it, calibrated and decided on where the head is, by what other
            folds chose; logits are -inf for classes which that head could not know.
        together: runs that were fitted together.
    """

    run: int
    finished: Finished
    answers: CrossFitted
    together: int


def cross_validate(
    runs: Sequence[RunSpec], data: Data, folds: Tensor, stop: Callable[[], bool] = never
) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Choose epochs, strengths, calibration and decisions on held-out folds, and fit the heads to all rows with them.

    Of each run are told its start, a FoldFitted after each fit, an Epoch for each epoch of the mean course over all
    folds and repeats, and how it ended: CrossValidated or Failed. Early stopping is off in the folds. Each takes the
    epochs that the schedule gives for all rows, so that an epoch is at the same point of the schedule in every fit, and
    the one with the highest mean of early_stop.metric, weighted by held-out rows, is kept. Predictions for a fold are
    made at the epoch that the other folds of its repeat choose. Runs of one skeleton are one stack in each fold.

    Args:
        runs: what to train. A run is judged on repeat seed modulo R, so that seeds also stand for cuts of the folds.
        data: all rows as the training part; the other parts are not read.
        folds: [R, N] number of the fold that holds each training row out, in each repeat.
        stop: asked as in `fit`; runs that are cut short give nothing.

    Raises:
        ValueError: a run cannot be trained on data, or folds are not of its rows.
    """
    check_runs(runs, data)
    if folds.ndim != 2 or folds.shape[1] != len(data.train) or any(len(numbers_in(each)) < 2 for each in folds):
        raise ValueError(
            f"folds [R, N] number each of the {len(data.train)} training rows, two numbers or more in each repeat, "
            f"however: {list(folds.shape)} came. Pass those of the same rows."
        )
    for numbers in groups_of(runs, data, len(folds)):
        try:
            yield from _studied(_study(numbers, runs, data, folds, stop))
        except StoppedError:
            return
        if stop():
            return


def check_runs(runs: Sequence[RunSpec], data: Data) -> None:
    """Refuse runs that cannot be cross-validated on the training part of data.

    Raises:
        ValueError: as `frostbench.training.checks.data.check_data`, save for missing rows that select or calibrate.
    """
    check_folds_stream(data)
    for run in runs:
        if run.second.refuses_folds:
            raise ValueError(run.second.refuses_folds)
    following = {kind for run in runs for kind in run.train.loss.following}
    if following:
        raise ValueError(
            f"{' and '.join(sorted(following))} follows the calibration of held-out rows while it trains, however: it "
            "came with a split into folds, whose held-out rows judge it. Cut the split without folds, or use another "
            "train.loss.point.kind."
        )
    if any(run.view_sets or run.tta for run in runs):
        raise ValueError(
            "view sets are of the training rows of an ordinary split, however: they came with a split into folds, "
            "where views would show held-out images. Cut the split without folds, or drop view_sets and tta."
        )
    if data.train.images is not None:
        raise ValueError(
            "folds are cut by rows and groups, however: rows are views of images. Pass one row for each image."
        )
    # As the folds train them: which classes a metric counts is another matter in each fold.
    check_data([watching_first(run) for run in runs], replace(data, select=data.train, calibrate=data.train))


def groups_of(runs: Sequence[RunSpec], data: Data, repeats: int) -> list[list[int]]:
    """Places of runs, those together that are fitted together and judged on the same repeat."""
    found: dict[tuple[int, int], list[int]] = {}
    for group, numbers in enumerate(grouped(runs, data)):
        for number in numbers:
            found.setdefault((group, runs[number].seed % repeats), []).append(number)
    return list(found.values())


def _study(
    numbers: Sequence[int], runs: Sequence[RunSpec], data: Data, folds: Tensor, stop: Callable[[], bool]
) -> CrossValidationState:
    asked, here = {number: runs[number] for number in numbers}, folds.to(data.train.labels.device)
    paces = {number: paced(run, len(data.train)) for number, run in asked.items()}
    state = CrossValidationState(asked, paces, data, here, runs[numbers[0]].seed % len(folds), stop, 0)
    stages = _is_stepped(runs[numbers[0]]) + runs[numbers[0]].second.takes_steps
    state.fits = stages * len(state.places) + len(state.judged) + 1
    return state


def _is_stepped(run: RunSpec) -> bool:
    return not run.head.classifier.is_closed_form


def _studied(state: CrossValidationState) -> Iterator[Event | FoldFitted | CrossValidated]:
    """Everything about runs of one skeleton, from their start to their end."""
    began, together, one = time.perf_counter(), len(state.runs), next(iter(state.runs.values()))
    for number, run in state.runs.items():
        yield Started(number, run.epochs_for(len(state.data.train)) if _is_stepped(run) else 0)
    if _is_stepped(one):
        yield from watched(state, 0, lambda run, _: watching_first(run))
    if one.second.takes_steps and state.runs:
        yield from watched(state, 1, watching_second)
    chosen: dict[int, OutOfFoldChoice] = {}
    for event in held_out(state) if state.runs else ():
        if isinstance(event, tuple):
            yield from _settled(state, *event, chosen)
        else:
            yield event
    for event in refitted(state, chosen) if state.runs else ():
        if isinstance(event, Finished):
            seconds = time.perf_counter() - began
            yield _whole(state, event, chosen[event.run], seconds, together)
        else:
            yield event


def _settled(
    state: CrossValidationState, number: int, held: OutOfFold, chosen: dict[int, OutOfFoldChoice]
) -> Iterator[Event]:
    """Make the choices that remain for a run."""
    try:
        chosen[number] = choose_out_of_fold(state.asked[number], held)
    except ValueError as error:
        yield state.failed(number, str(error))


def _whole(
    state: CrossValidationState, end: Finished, found: OutOfFoldChoice, seconds: float, together: int
) -> CrossValidated:
    prior = state.asked[end.run].posthoc.deployed(end.head.class_names, end.head.priors.present)
    head = replace(end.head.under(prior), layers=found.layers, calibration=found.calibration)
    kept, epoch = state.kept.get(end.run, []), end.epoch
    if len(kept) == 2 and epoch > kept[0].final:
        # The mean course of the second stage counts on from the whole first one.
        epoch += state.runs[end.run].train.schedule.epochs - kept[0].final
    finished = replace(end, head=head, epoch=epoch, seconds=seconds)
    return CrossValidated(end.run, finished, found.answers, together)
