"""What gives a run a new key, and what does not."""

from short_benches import bench_of, kinds

from benchmarks.events import (
    RunDone,
)
from benchmarks.runner import run_bench
from benchmarks.settings import run_key
from embedcache.splits.making import SplitSpec
from training.engine import ENGINE_VERSION
from training.run import RunSpec


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
    monkeypatch.setattr("benchmarks.keys.ENGINE_VERSION", ENGINE_VERSION + 1)
    second = keys_of(cache)
    assert len(first + second) == len({*first, *second}) == 2


def test_a_new_option_at_its_default_keeps_the_key():
    class Grown(RunSpec):
        novelty: float = 0.5

    assert run_key(Grown(), "table", "split", 1) == run_key(RunSpec(), "table", "split", 1)
    assert run_key(Grown(novelty=0.6), "table", "split", 1) != run_key(RunSpec(), "table", "split", 1)
