"""Ensembles of a bench: heads of several rows whose probabilities are averaged, judged and kept as one more row.

Nothing is trained. An ensemble is of one seed, so a bench has as many of each as seeds, and they are paired with the
other rows. Its record is in the store; its heads stay with the runs they are from.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frostbench.benchmarks.runs.evaluate import data_facts, environment, evaluate
from frostbench.benchmarks.runs.events import BenchEvent, RowStarted, RunDone, RunFailed, RunSkipped
from frostbench.benchmarks.runs.keys import bench_rows, ensemble_key
from frostbench.benchmarks.runs.record import RunRecord
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
    """Where ensembles are judged and kept.

    Attributes:
        store: the run store.
        cache: folder of the cache.
        table: its table.
        split: the role of each of its rows.
    """

    store: Path
    cache: str
    table: FeatureTable
    split: Split


def check_judged(bench: BenchSpec, split: Split) -> None:
    """Refuse ensembles where no rows are left that their members have not seen.

    Raises:
        SettingsError: the bench has ensembles and the split is cross-validated.
    """
    if bench.ensembles and split.folds is not None:
        raise SettingsError(
            f"an ensemble is judged by its members on selection rows, however: {list(bench.ensembles)} came with a "
            "cross-validated split, whose kept heads were fitted to all rows. Use a split with a select share."
        )


def averaged(
    bench: BenchSpec, rows: Sequence[Row], place: Place, started: int, stop: Callable[[], bool]
) -> Iterator[BenchEvent]:
    """Judge the ensembles of a bench that its store lacks, after its runs have ended.

    One with a member that is not in the store is skipped, and told as failed; the next start tries it again.

    Args:
        bench: with its ensembles.
        rows: of the bench, or all settings of them.
        place: one of its caches.
        started: how many rows were told before.
        stop: asked before the first; members that a stop cut short are not told as missing.
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
        for at, seed in enumerate(bench.seeds):
            yield _of_seed(place, name, seed, {member: keys[member][at] for member in members})


def _of_seed(place: Place, name: str, seed: int, members: Mapping[str, str]) -> BenchEvent:
    """Judge and keep the ensemble of one seed, from the run of each row."""
    key, keys = ensemble_key(list(members.values())), sorted(members.values())
    if is_finished(place.store, key):
        return RunSkipped(place.cache, name, seed, key)
    lacking = [row for row, own in members.items() if not is_finished(place.store, own)]
    if lacking:
        return RunFailed(
            place.cache,
            name,
            seed,
            f"an ensemble averages finished runs, however: those of {lacking} are not in the store. See why they "
            "failed, or name other rows.",
        )
    records = [read_record(place.store, own) for own in keys]
    if len(set(keys)) < len(keys) or len({record.data.background for record in records}) > 1:
        return RunFailed(
            place.cache,
            name,
            seed,
            f"members of an ensemble are different runs with the same background classes, however: the rows "
            f"{list(members)} are not. Change one of them, or name other rows.",
        )
    return _kept(place, name, key, records)


def _kept(place: Place, name: str, key: str, records: Sequence[RunRecord]) -> RunDone:
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
    """The ensemble of runs whose heads are in the store.

    Raises:
        ValueError: a head is missing or damaged, or they are no ensemble.
    """
    return Ensemble(tuple(load_head(run_folder(store, record.key) / "head") for record in records))
