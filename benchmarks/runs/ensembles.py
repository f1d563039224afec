"""Ensembles of a bench: evaluates the averaged probabilities of several rows as one more row.

There is one ensemble per seed, so ensembles are paired with the other rows. Nothing is trained: the record of an
ensemble refers to the runs of its members, which hold the heads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frostbench.benchmarks.runs.evaluate import evaluate
from frostbench.benchmarks.runs.events import BenchEvent, RowStarted, RunDone, RunFailed, RunSkipped
from frostbench.benchmarks.runs.keys import bench_rows, ensemble_key
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.run_facts import data_facts, environment
from frostbench.benchmarks.runs.store import StoreError, is_finished, read_record, run_folder, save_run
from frostbench.benchmarks.runs.tuning import rows_on_cache
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec, Row
from frostbench.embedcache.splits.making import Split
from frostbench.embedcache.table import FeatureTable
from frostbench.heads.bundle.export import load_head
from frostbench.heads.ensemble import Ensemble
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.metrics.counts import shot_of


@dataclass(frozen=True)
class Place:
    """Store of the ensembles, and the data that they are evaluated on."""

    store: Path
    cache: str
    table: FeatureTable
    split: Split


def check_judged(bench: BenchSpec, split: Split) -> None:
    """Check that there are validation rows that the members of ensembles have not seen."""
    if bench.ensembles and split.folds is not None:
        raise SettingsError(
            f"Ensembles are evaluated on validation rows, but {list(bench.ensembles)} were requested with a "
            "cross-validated split, whose stored heads are fitted to all rows. Use a split with a select share."
        )


def averaged(
    bench: BenchSpec, rows: Sequence[Row], place: Place, started: int, stop: Callable[[], bool]
) -> Iterator[BenchEvent]:
    """Evaluate the ensembles of a bench that are missing in its store, after its runs have ended.

    An ensemble with a missing member is reported as failed; the next start tries it again.

    Args:
        bench: bench with its ensembles.
        rows: rows of the bench, or all of their settings.
        place: store and data of one of its caches.
        started: number of rows before the ensembles.
        stop: called before the first ensemble; if it returns True, nothing is evaluated.
    """
    if not bench.ensembles or stop():
        return
    (part,) = bench_rows(bench.model_copy(update={"caches": (place.cache,)}))
    for number, (name, members) in enumerate(bench.ensembles.items(), start=started + 1):
        yield RowStarted(place.cache, name, number, started + len(bench.ensembles), ())
        try:
            keys = rows_on_cache(bench, place.cache, part.rows, [row for row in rows if row.row in members]).rows
        except StoreError as error:
            yield from (RunFailed(place.cache, name, seed, str(error)) for seed in bench.seeds)
            continue
        for number, seed in enumerate(bench.seeds):
            yield _of_seed(place, name, seed, {member: keys[member][number] for member in members})


def _of_seed(place: Place, name: str, seed: int, members: Mapping[str, str]) -> BenchEvent:
    """Evaluate and store the ensemble of one seed, given the run key of each member."""
    key, keys = ensemble_key(list(members.values())), sorted(members.values())
    if is_finished(place.store, key):
        return RunSkipped(place.cache, name, seed, key)
    missing = [row for row, run in members.items() if not is_finished(place.store, run)]
    if missing:
        message = (
            f"The members of an ensemble must be finished runs, but those of {missing} are not in the store. Find out "
            "why they failed, or name other rows."
        )
        return RunFailed(place.cache, name, seed, message)
    records = [read_record(place.store, run) for run in keys]
    if len(set(keys)) < len(keys) or len({record.data.background for record in records}) > 1:
        message = (
            "The members of an ensemble must be different runs with the same background classes, but those of rows "
            f"{list(members)} are not. Change one of these rows, or name other rows."
        )
        return RunFailed(place.cache, name, seed, message)
    return _evaluated(place, name, key, records)


def _evaluated(place: Place, name: str, key: str, records: Sequence[RunRecord]) -> RunDone:
    ensemble = ensemble_of(place.store, records)
    background = records[0].data.background
    evaluations, outcomes = evaluate(ensemble, place.table, place.split, background)
    norms = [record.gradient_norm for record in records]
    data = data_facts(place.cache, place.table, place.split, ensemble, background)
    record = RunRecord(
        format_version=1,
        key=key,
        engine=ENGINE_VERSION,
        spec={},
        full_spec={"seed": records[0].seed},
        data=data,
        evaluations=evaluations,
        shot=tuple(shot_of(count) for count in data.train_counts),
        temperature=1.0,
        reason="solved" if all(record.reason == "solved" for record in records) else "averaged",
        epoch=0,
        seconds=sum(record.seconds for record in records),
        gradient_norm=max((norm for norm in norms if norm is not None), default=None) if None not in norms else None,
        curve={},
        environment=environment("cpu"),
        members=tuple(record.key for record in records),
    )
    return RunDone(place.cache, name, record, save_run(place.store, record, outcomes, None, None))


def ensemble_of(store: Path, records: Sequence[RunRecord]) -> Ensemble:
    """Load the heads of runs from the store as an ensemble.

    Raises:
        ValueError: a head is missing or damaged, or the heads cannot form an ensemble.
    """
    return Ensemble(tuple(load_head(run_folder(store, record.key) / "head") for record in records))
