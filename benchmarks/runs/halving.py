"""Successive halving: trains all settings of a search for a few epochs, and only the best third of them for longer.

Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization, AISTATS 2016, with the
factor 3 of Li et al., Hyperband, JMLR 2018. Each round trains anew, so that its learning rate decays over its own
epochs. Settings are chosen by the bench's `tune_by` on validation rows; test rows are not used.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from frostbench.benchmarks.runs.events import BenchDone, BenchEvent, RoundStarted
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.streaming import Stream
from frostbench.benchmarks.runs.tuning import ChosenRows, chosen_rows
from frostbench.benchmarks.runs.tuning_edges import edges
from frostbench.benchmarks.settings.parsing import SettingsError, Tree
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.training.engine.fit import never

FACTOR = 3
"""Each round has a third of the settings of the one before it, and three times its epochs."""
SCHEDULE = ("train.schedule.epochs", "train.schedule.min_steps")
"""Options that say how long a run trains; rounds set them."""


@dataclass(frozen=True)
class Round:
    """A round of successive halving.

    Attributes:
        number: position of the round, from 1.
        rounds: number of rounds.
        bench: bench that trains its settings; in the last round for as long as the search states.
        settings: number of its settings.
        epochs: number of epochs that its schedule states for the first setting.
    """

    number: int
    rounds: int
    bench: BenchSpec
    settings: int
    epochs: int

    @property
    def is_last(self) -> bool:
        """Whether no round follows."""
        return self.number == self.rounds


def first_round(bench: BenchSpec, rounds: int) -> Round:
    """Return the first round of a search, which has all of its settings.

    Args:
        bench: bench on one cache whose only row is tuned.
        rounds: number of rounds, at least 2.

    Raises:
        SettingsError: the bench has another form or too few settings, a setting has no epochs or sets them itself, or
            a setting is not allowed with fewer epochs.
        ValueError: options of a setting conflict.
    """
    return _first(bench, rounds, rows_of(bench))


def _first(bench: BenchSpec, rounds: int, rows: Sequence[Row]) -> Round:
    names = {row.row for row in rows}
    if len(bench.caches) != 1 or len(names) != 1 or rounds < 2:
        raise SettingsError(
            f"Successive halving needs one tuned row, one cache and at least 2 rounds, got {len(names)} rows, "
            f"{len(bench.caches)} caches and {rounds} rounds. Remove `toggles` and `grid`, and name one cache."
        )
    if len(rows) < FACTOR ** (rounds - 1):
        raise SettingsError(
            f"Successive halving in {rounds} rounds needs at least {FACTOR ** (rounds - 1)} settings, got {len(rows)}. "
            "Add settings, or take fewer rounds."
        )
    _check_epochs(rows)
    return _round(bench, 1, rounds, rows)


def _check_epochs(rows: Sequence[Row]) -> None:
    for row in rows:
        if row.specs[0].is_solved:
            raise SettingsError(
                f"Successive halving needs heads that train in epochs, but that of {row.name!r} is computed in one "
                "step. Search without it."
            )
        if set(SCHEDULE) & set(row.changes):
            raise SettingsError(
                f"Successive halving sets the number of epochs and updates itself, but {row.name!r} sets them too. "
                "Remove these options from the search."
            )


def _round(bench: BenchSpec, number: int, rounds: int, rows: Sequence[Row]) -> Round:
    """Return a round with the settings of some rows."""
    changes: list[Tree] = [row.changes for row in rows]
    schedule, part = rows[0].specs[0].train.schedule, FACTOR ** (rounds - number)
    epochs, steps = math.ceil(schedule.epochs / part), math.ceil(schedule.min_steps / part)
    shorter = dict(zip(SCHEDULE, (epochs, steps), strict=True)) if part > 1 else {}
    tuned = {"base": dict(bench.base) | shorter, "tune": {rows[0].row: tuple(changes)}}
    return Round(number, rounds, bench.model_copy(update=tuned), len(rows), epochs)


def next_round(bench: BenchSpec, done: Round) -> Round:
    """Return the round after one whose runs are all in the store, with the best third of its settings.

    Raises:
        StoreError: a run of the finished round is missing, or no setting has a value for every seed.
    """
    (part,) = chosen_rows(done.bench)
    (tuned,) = part.tuned.values()
    ranked = sorted(tuned.tried, key=lambda tried: tried.preference(bench.tune_by), reverse=True)
    best = [tried.changes for tried in ranked[: math.ceil(done.settings / FACTOR)] if tried.value is not None]
    rows = [row for row in rows_of(bench) if row.changes in best]
    return _round(bench, done.number + 1, done.rounds, rows)


def planned_rounds(bench: BenchSpec, rounds: int) -> tuple[Round, ...]:
    """Return all rounds with the number of their settings; which ones they are is not known, so the first stand in.

    Raises:
        SettingsError: as in `first_round`.
    """
    rows = rows_of(bench)
    found = [_first(bench, rounds, rows)]
    for number in range(2, rounds + 1):
        found.append(_round(bench, number, rounds, rows[: math.ceil(found[-1].settings / FACTOR)]))
    return tuple(found)


def run_halving(
    bench: BenchSpec,
    rounds: int,
    *,
    stop: Callable[[], bool] = never,
    device: str = "cpu",
    stream: Stream = "auto",
) -> Iterator[BenchEvent]:
    """Train a search by successive halving, and yield the events of all rounds; the last one counts all runs.

    A search that was stopped goes on where it was: finished runs are in the store, as are those of earlier rounds.

    Args:
        bench: bench on one cache whose only row is tuned.
        rounds: number of rounds, at least 2.
        stop: as in `run_bench`.
        device: as in `run_bench`.
        stream: as in `run_bench`.

    Raises:
        SettingsError: as in `first_round`.
        StoreError: no setting of a round has a value for every seed.
        ValueError: as in `run_bench`.
    """
    current, trained, skipped = first_round(bench, rounds), 0, 0
    while True:
        yield RoundStarted(current.number, rounds, current.settings, current.epochs)
        for event in run_bench(current.bench, stop=stop, device=device, stream=stream):
            if isinstance(event, BenchDone):
                trained, skipped = trained + event.trained, skipped + event.skipped
                event = replace(event, trained=trained, skipped=skipped)
                if current.is_last:
                    yield event
            else:
                yield event
        if current.is_last or stop():
            return
        current = next_round(bench, current)


def last_round(bench: BenchSpec, rounds: int) -> Round:
    """Return the last round of a search whose runs of earlier rounds are all in the store.

    Raises:
        SettingsError: as in `first_round`.
        StoreError: as in `next_round`.
    """
    current = first_round(bench, rounds)
    while not current.is_last:
        current = next_round(bench, current)
    return current


def chosen_by_halving(bench: BenchSpec, rounds: int) -> ChosenRows:
    """Return the winner of a finished search among the settings of its last round, with its edges among all settings.

    Raises:
        SettingsError: as in `first_round`.
        StoreError: as in `next_round`.
    """
    (part,) = chosen_rows(last_round(bench, rounds).bench)
    ((row, tuned),) = part.tuned.items()
    specs = [one.specs[0] for one in rows_of(bench)]
    found = () if tuned.is_tied else edges(tuned.winner.changes, specs, tuned.winner.spec)
    return replace(part, tuned={row: replace(tuned, edges=found)})
