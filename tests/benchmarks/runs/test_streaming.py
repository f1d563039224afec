"""A bench gives the same results with vectors on disk as in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from flips import flips

import frostbench.benchmarks.runs.evaluate as evaluating
from frostbench.benchmarks.runs.events import BenchDone, BenchEvent, CacheOpened, RowStarted, RunDone, RunSkipped
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_outcomes
from frostbench.benchmarks.runs.streaming import Memory, memory_of, opened_to_train, too_much
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.benchmarks.speed import stream as speed
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.training.run import RunSpec

SHORT = {
    "train.schedule.epochs": 2,
    "train.schedule.min_steps": 0,
    "head.body.kind": "mlp",
    "head.body.hidden": [6],
    "train.sampler.buffer_rows": 64,
    "train.sampler.block_rows": 16,
}


def bench_of(cache: Path, store: str = "runs", **fields: object) -> BenchSpec:
    known = {"caches": (str(cache),), "store": str(cache.parent / store), "base": SHORT, "seeds": (0,)}
    return BenchSpec.model_validate(known | {"preset": "plain"} | fields)


def of_kind(events: Iterator[BenchEvent] | list[BenchEvent], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


def test_a_streamed_bench_has_the_heads_and_outcomes_of_one_in_memory(cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(evaluating, "ROWS_AT_ONCE", 17)
    changes = {"base": SHORT | {"posthoc.calibration.kind": "temperature"}, "seeds": (0, 1)}
    here = list(run_bench(bench_of(cache, "here", **changes), stream="never"))
    there = list(run_bench(bench_of(cache, "there", **changes), stream="always"))
    assert of_kind(here, CacheOpened)[0].warnings == ()
    assert of_kind(there, CacheOpened)[0].warnings == ("Vectors stay on disk: stream=always was requested.",)
    pairs = list(zip(of_kind(here, RunDone), of_kind(there, RunDone), strict=True))
    assert len(pairs) == 2
    for own, other in pairs:
        assert own.record.key == other.record.key
        assert own.record.evaluations == other.record.evaluations
        assert own.record.curve == other.record.curve
        heads = [load(event.folder / "head").head.head.state_dict() for event in (own, other)]
        assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0])
        outcomes = [read_outcomes(cache.parent / place, own.record.key, "test") for place in ("here", "there")]
        pd.testing.assert_frame_equal(*outcomes)
    again = list(run_bench(bench_of(cache, "there", **changes)))
    assert len(of_kind(again, RunSkipped)) == 2


def test_evaluation_in_parts_is_that_of_all_rows(cache: Path, monkeypatch) -> None:
    (whole,) = of_kind(run_bench(bench_of(cache, "whole")), RunDone)
    monkeypatch.setattr(evaluating, "ROWS_AT_ONCE", 5)
    (parts,) = of_kind(run_bench(bench_of(cache, "parts")), RunDone)
    for role, evaluation in whole.record.evaluations.items():
        assert parts.record.evaluations[role].metrics == pytest.approx(evaluation.metrics, abs=1e-6)


@pytest.fixture
def with_free(monkeypatch) -> Callable[[int], None]:
    """Set the number of available bytes."""

    def free(count: int) -> None:
        monkeypatch.setattr("frostbench.benchmarks.runs.streaming.free_on", lambda device: count)

    return free


def test_the_need_counts_the_table_its_parts_and_the_copies_of_a_run(cache: Path) -> None:
    table = read_table(cache, stored=True)
    split = load_or_make_split(cache, table, SplitSpec())
    roles = split.report.counts
    seen = roles["train"] + roles["select"]
    need = memory_of(table, split, [RunSpec()])
    assert need == Memory(2 * 272 * 8, 4 * (seen + roles["calibrate"]) * 8 + 3 * 4 * seen * 8)
    assert need.beside(100, torch.device("cpu")) == [(need.table + need.training, 100)]


def test_vectors_stay_on_disk_where_they_do_not_fit(cache: Path, with_free) -> None:
    bench = bench_of(cache)
    rows = [type("R", (), {"specs": (RunSpec(),)})]
    need = sum(vars(memory_of(*opened_to_train(str(cache), bench, rows, stream="always")[:2], [RunSpec()])).values())
    with_free(int(need / 0.8) + 1)
    assert opened_to_train(str(cache), bench, rows).on_disk == ""
    assert opened_to_train(str(cache), bench, rows).table.columns["toy"].shape == (272, 8)
    with_free(int(need / 0.8) - 1)
    found = opened_to_train(str(cache), bench, rows)
    assert found.table.columns == {}
    assert found.on_disk.startswith("in memory they would take 0.00 GiB with the copies for training, more than")
    assert opened_to_train(str(cache), bench, rows, stream="never").on_disk == ""


def test_the_table_and_the_device_each_have_their_own_memory() -> None:
    assert too_much([(79, 100), (80, 100)]) == ""
    assert "take 0.00 GiB" in too_much([(79, 100), (81, 100)])


def test_a_run_that_cannot_stream_is_told_how_much_memory_it_would_take(cache: Path, with_free) -> None:
    with_free(2**10)
    bench = bench_of(cache, base={}, toggles={"logreg": {"head.classifier.kind": "logreg"}})
    with pytest.raises(
        ValueError, match=r"row 'plain': .* train.sampler.buffer_rows=null needs all 1\d\d rows"
    ) as told:
        list(run_bench(bench))
    assert "Vectors stay on disk: in memory they would take 0.00 GiB" in str(told.value)
    bench = bench_of(cache, base={"head.classifier.kind": "logreg"})
    with pytest.raises(ValueError, match=r"head\.classifier\.kind=logreg needs all"):
        list(run_bench(bench))


def test_folds_do_not_stream(cache: Path) -> None:
    with pytest.raises(ValueError, match="needs the training rows in memory, but the 216 rows stay on"):
        list(run_bench(bench_of(cache, split={"folds": 3}), stream="always"))


def test_how_well_a_buffer_mixes_is_told(cache: Path) -> None:
    found = of_kind(run_bench(bench_of(cache), stream="always"), RowStarted)
    assert [w for w in found[0].warnings if "buffer_rows=64 shuffles" in w]
    assert of_kind(run_bench(bench_of(cache)), BenchDone)


def test_the_speed_benchmark_times_the_same_heads(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(speed, "DIM", 8)
    for name, value in {"SHARD_ROWS": 64, "BATCH": 100, "LARGE_BUFFER": 128}.items():
        monkeypatch.setattr(speed, name, value)
    cache = speed.write_table(tmp_path / "cache", 1_000)
    stored, held = (speed.data_of(read_table(cache, stored=place)) for place in (True, False))
    (found,) = speed.timed("linear", held, stored, 0.0, 1)
    assert (found.name, found.ok) == ("stream.linear", True)
    assert float(found.unit.rsplit(" ", 1)[1]) < 1e-6
    assert speed.peak_of(cache, True) > 0


@pytest.mark.parametrize("stream", ["always", "never"])
def test_a_flipped_bit_of_a_shard_is_noticed_before_anything_is_trained(cache: Path, stream, fits) -> None:
    bench = bench_of(cache, "flipped")
    load_or_make_split(cache, read_table(cache), bench.split)
    for _ in flips(cache / "shards" / "part-00000.parquet", 40):
        with pytest.raises(CacheError):
            list(run_bench(bench, stream=stream))
    assert fits == []


def test_a_shard_that_is_damaged_later_is_noticed_when_its_rows_are_read(cache: Path) -> None:
    bench = bench_of(cache)
    opened = opened_to_train(str(cache), bench, expand(bench), stream="always")
    for _ in flips(cache / "shards" / "part-00000.parquet", 40):
        with pytest.raises(CacheError):
            opened.table.stored["toy"].read(0, 1)
