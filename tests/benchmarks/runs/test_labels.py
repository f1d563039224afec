"""Benches with changed labels: runs of their own, on the same roles, through comparing and exporting."""

import numpy as np
import pytest
from short_benches import bench_of, kinds

from frostbench.benchmarks.calibration.report import calibration
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.events import BenchDone, CacheOpened
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.keys import known_keys
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.settings.plan import expand
from frostbench.embedcache.labels.corrections import Correction, LabelError, add_corrections
from frostbench.embedcache.labels.spec import LabelSpec
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load_head

TAKEN_OUT = "0003"
CLASSES = ("<img onerror=alert(1)>", "ash", "beech", "conifer", "yew")


@pytest.fixture
def corrections(tmp_path):
    path = tmp_path / "labels.csv"
    add_corrections(path, [Correction("0000", "ash", "yew"), Correction("0001", "ash", "yew")])
    add_corrections(path, [Correction("0002", "ash", "yew"), Correction(TAKEN_OUT, "ash", "")])
    return str(path)


@pytest.fixture
def bench(cache, corrections):
    labels = LabelSpec(file=corrections, merge={"conifer": ("cedar", "fir")}, leave_out=("elm & oak",))
    return bench_of(cache, labels=labels, toggles={"lda": {"preset": "lda"}})


def keys_of(bench, row="baseline"):
    return bench_rows(bench)[0].rows[row]


@pytest.mark.parametrize("stream", ["never", "always"])
def test_training_gets_the_changed_labels_and_the_old_roles(cache, bench, stream):
    plain = opened_to_train(str(cache), bench_of(cache), expand(bench_of(cache)))
    opened = opened_to_train(str(cache), bench, expand(bench), stream=stream)
    assert opened.table.class_names == CLASSES
    roles = dict(zip(plain.table.ids.tolist(), plain.split.roles.tolist(), strict=True))
    assert [roles[image] for image in opened.table.ids.tolist()] == opened.split.roles.tolist()
    assert TAKEN_OUT not in set(opened.table.ids.tolist())
    counts = np.bincount(opened.table.labels)
    assert counts.tolist() == [24, 120 - 4, 60, 40 + 12, 3]


def test_runs_have_keys_of_their_own_and_are_compared_and_exported(bench, cache, tmp_path):
    events = list(run_bench(bench))
    (opened,), (done,) = kinds(events, CacheOpened), kinds(events, BenchDone)
    assert opened.warnings[-1] == "Labels: 3 corrected, 52 merged into another class, 17 left out."
    assert done.trained == 4
    keys = keys_of(bench)
    assert set(keys).isdisjoint(keys_of(bench_of(cache)))
    assert known_keys(bench.model_copy(update={"toggles": {}}), read_table(cache)) == dict(enumerate(keys))
    (rows,) = bench_rows(bench)
    assert compare(tmp_path / "runs", rows.rows, None, "test").n_rows == opened.rows["test"]
    (report,) = calibration(bench, "test", resamples=20)
    assert set(report.rows) == {"baseline", "lda"}
    export_row(bench, "lda", tmp_path / "head")
    assert load_head(tmp_path / "head").class_names == CLASSES


def test_changes_without_effect_keep_the_run(cache, tmp_path):
    add_corrections(tmp_path / "same.csv", [Correction("0000", "yew", "ash")])
    same = bench_of(cache, labels=LabelSpec(file=str(tmp_path / "same.csv")))
    assert keys_of(same) == keys_of(bench_of(cache))


def test_a_damaged_file_stops_the_bench(cache, tmp_path):
    with pytest.raises(LabelError, match=r"must be a file, but .*none.csv does not exist"):
        list(run_bench(bench_of(cache, labels=LabelSpec(file=str(tmp_path / "none.csv")))))


@pytest.mark.parametrize("stream", ["never", "always"])
def test_unlabelled_images_change_no_run_until_they_are_labelled(write_cache, tmp_path, stream):
    new = (0, 1, 140)
    plain = write_cache(tmp_path / "cache", relabel=dict.fromkeys(new, ""))
    bench = bench_of(plain)
    opened = opened_to_train(str(plain), bench, expand(bench), stream=stream)
    assert len(opened.table.ids) == 272 - 3
    path = tmp_path / "labels.csv"
    add_corrections(path, [Correction(f"{row:04d}", "", "yew") for row in new])
    labelled = bench_of(plain, labels=LabelSpec(file=str(path)))
    after = opened_to_train(str(plain), labelled, expand(labelled), stream=stream)
    assert after.table.ids.tolist() == [f"{row:04d}" for row in range(272)]
    assert after.table.label_names[list(new)].tolist() == ["yew"] * 3
    roles = dict(zip(opened.table.ids.tolist(), opened.split.roles.tolist(), strict=True))
    # Rows 0 and 1 are a group of their own; row 140 belongs with row 141.
    assert after.split.roles[list(new)].tolist() == [
        "train",
        "train",
        "train" if roles["0141"] == "train" else "unused",
    ]
    (done,) = kinds(run_bench(labelled), BenchDone)
    assert done.trained == 2
    assert set(keys_of(bench)).isdisjoint(keys_of(labelled))
