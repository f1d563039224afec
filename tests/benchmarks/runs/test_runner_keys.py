"""Changes that give a run a new key, and changes that do not."""

import os

import pytest
from short_benches import bench_of, kinds

from frostbench.benchmarks.runs.events import (
    RunDone,
)
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import StoreError, is_finished, run_folder
from frostbench.benchmarks.settings.parsing import run_key
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.training.engine.fit import ENGINE_VERSION
from frostbench.training.run import RunSpec


def keys_of(cache, **fields):
    """Keys of the runs that had to be trained."""
    return [event.record.key for event in kinds(run_bench(bench_of(cache, seeds=(0,), **fields)), RunDone)]


def test_a_new_image_gives_a_new_key(cache, write_cache, tmp_path):
    grown = write_cache(tmp_path / "grown", counts=(121, 60, 40, 24, 16, 12))
    assert keys_of(cache) != keys_of(grown, store=str(tmp_path / "other"))


def test_a_changed_label_gives_a_new_key(cache, write_cache, tmp_path):
    relabelled = write_cache(tmp_path / "relabelled", relabel={0: "beech"})
    assert keys_of(cache) != keys_of(relabelled, store=str(tmp_path / "other"))


def test_the_same_images_in_another_folder_keep_their_key(cache, write_cache, tmp_path, fits):
    copy = write_cache(tmp_path / "copy")
    assert len(keys_of(cache)) == 1
    assert keys_of(copy) == []
    assert fits == [1]


def test_another_split_gives_a_new_key(cache):
    first = keys_of(cache)
    second = keys_of(cache, split=SplitSpec(seed=43))
    assert len(first + second) == len({*first, *second}) == 2


def test_a_raised_engine_version_gives_a_new_key(cache, monkeypatch):
    first = keys_of(cache)
    monkeypatch.setattr("frostbench.benchmarks.runs.keys.ENGINE_VERSION", ENGINE_VERSION + 1)
    second = keys_of(cache)
    assert len(first + second) == len({*first, *second}) == 2


def test_a_new_option_at_its_default_keeps_the_key():
    class Grown(RunSpec):
        novelty: float = 0.5

    assert run_key(Grown(), "table", "split", 1) == run_key(RunSpec(), "table", "split", 1)
    assert run_key(Grown(novelty=0.6), "table", "split", 1) != run_key(RunSpec(), "table", "split", 1)


def test_a_place_that_is_taken_is_found_before_anything_is_trained(cache, tmp_path, fits):
    bench = bench_of(cache, seeds=(0,), store=str(tmp_path / "store"))
    ((key,),) = [keys for rows in bench_rows(bench) for keys in rows.rows.values()]
    folder = run_folder(tmp_path / "store", key)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"holds other files and no record\. Move it elsewhere"):
        list(run_bench(bench))
    assert fits == []
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    list(run_bench(bench))
    assert is_finished(tmp_path / "store", key)
    assert fits == [1]


def test_what_killed_runs_left_in_a_store_goes_with_the_next_bench(cache, tmp_path):
    runs = tmp_path / "store/runs"
    runs.mkdir(parents=True)
    (runs / "f00d.7-0123abcd.tmp.mark").touch()
    (runs / "f00d.7-0123abcd.tmp").mkdir()
    (runs / "f00d.7-0123abcd.tmp/record.json").write_text("{")
    (runs / "mine.7-0123abcd.tmp").mkdir()
    (tmp_path / "store/records.parquet.7-0123abcd.tmp").touch()
    before = os.umask(0o027)
    try:
        done = kinds(run_bench(bench_of(cache, seeds=(0,), store=str(tmp_path / "store"))), RunDone)
    finally:
        os.umask(before)
    key = done[0].record.key
    assert sorted(path.name for path in runs.iterdir()) == sorted([key, "mine.7-0123abcd.tmp"])
    assert [path.name for path in (tmp_path / "store").iterdir() if ".tmp" in path.name] == []
    assert (runs / key).stat().st_mode & 0o777 == (runs / key / "head").stat().st_mode & 0o777 == 0o750
