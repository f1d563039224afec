"""The incrementally updated flat file of a store equals a newly written one."""

import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from pydantic import TypeAdapter

from frostbench.benchmarks.runs import all_runs as stored
from frostbench.benchmarks.runs.all_runs import count_runs, write_records
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import read_record, run_folder
from frostbench.benchmarks.speed.fake_runs import write_fake_runs


@pytest.fixture
def store(tmp_path):
    """A store with eight runs of different forms."""
    a, _ = write_fake_runs(tmp_path, rows=60, classes=4)
    for number in range(6):
        more(tmp_path, a, f"more-{number}")
    return tmp_path


def more(store, like, key, **changes):
    """Add a copy of an existing run."""
    folder = run_folder(store, key)
    shutil.copytree(run_folder(store, like), folder)
    return write(store, replace(read_record(store, like), key=key, **changes))


def write(store, record):
    (run_folder(store, record.key) / "record.json").write_bytes(TypeAdapter(RunRecord).dump_json(record))
    return record


@pytest.fixture
def read(monkeypatch):
    """Keys of the records read."""
    keys = []

    def seen(store, key):
        keys.append(key)
        return read_record(store, key)

    monkeypatch.setattr(stored, "read_record", seen)
    return keys


def flat(store):
    path, _ = write_records(store)
    return pd.read_parquet(path)


def anew(store):
    """Content of the file when written from scratch."""
    (store / "records.parquet").unlink()
    return flat(store)


def same(found, wanted):
    assert set(found) == set(wanted)
    # A missing value is None in an untyped column and NaN in a numeric one.
    one, other = (f[sorted(f)].astype(object).where(f[sorted(f)].notna(), None) for f in (found, wanted))
    pd.testing.assert_frame_equal(one, other)


def test_only_new_records_are_read(store, read):
    assert len(flat(store)) == 8
    assert len(read) == 8
    read.clear()
    more(store, "fake-a", "new")
    found = flat(store)
    assert (len(found), read) == (9, ["new"])
    assert list(found["key"]) == sorted(found["key"])
    read.clear()
    flat(store)
    assert read == []
    same(found, anew(store))


def test_changed_and_removed_records_are_followed(store, read):
    flat(store)
    record = read_record(store, "more-2")
    write(store, replace(record, seconds=record.seconds + 1e6))
    shutil.rmtree(run_folder(store, "more-0"))
    read.clear()
    found = flat(store).set_index("key")
    assert read == ["more-2"]
    assert found.loc["more-2", "seconds"] == record.seconds + 1e6
    assert "more-0" not in found.index
    same(found.reset_index(), anew(store))


def test_runs_with_other_settings_and_types_are_joined(store):
    flat(store)
    spec = {"seed": 7, "train": {"optim": {"lr": 1}}, "view_sets": ["a"], "tall": True}
    more(store, "fake-a", "odd", spec=spec, temperature=2, gradient_norm=1e-9)
    found = flat(store).set_index("key")
    assert json.loads(found.loc["odd", "spec.view_sets"]) == ["a"]
    assert found.loc["odd", "gradient_norm"] == 1e-9
    assert found.loc["odd", "spec.seed"] == "7"
    same(found.reset_index(), anew(store))
    shutil.rmtree(run_folder(store, "odd"))
    gone = flat(store)
    assert "spec.view_sets" not in gone
    same(gone, anew(store))


@pytest.mark.parametrize("spoil", [b"", b"PAR1 and then nothing", None])
def test_a_damaged_or_older_file_is_written_anew(store, spoil, read):
    wanted, path = flat(store), store / "records.parquet"
    if spoil is None:
        wanted.assign(seconds=-1.0).to_parquet(path, index=False)
    else:
        path.write_bytes(spoil)
    read.clear()
    same(flat(store), wanted)
    assert len(read) == 8


def test_an_unreadable_record_is_told_each_time_and_read_when_it_is_mended(store):
    path = run_folder(store, "more-1") / "record.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert write_records(store)[1] == ("more-1",)
    assert write_records(store)[1] == ("more-1",)
    path.write_bytes(whole)
    assert write_records(store)[1] == ()
    assert len(flat(store)) == 8


def test_runs_are_counted_from_the_file_as_far_as_it_is_true(store, monkeypatch):
    split = read_record(store, "fake-a").data.split
    flat(store)
    record = read_record(store, "more-3")
    write(store, replace(record, data=replace(record.data, split="another split")))
    parsed = []
    real = stored._split_of.__wrapped__
    monkeypatch.setattr(
        stored, "_split_of", lambda path, written: (parsed.append(path.parent.name), real(path, written))[1]
    )
    assert count_runs(store, split) == (7, ())
    assert count_runs(store, "another split") == (1, ())
    assert set(parsed) == {"more-3"}


def test_an_empty_store_has_an_empty_file(tmp_path):
    path, unreadable = write_records(tmp_path)
    assert (len(pd.read_parquet(path)), unreadable) == (0, ())
    assert count_runs(tmp_path, "x") == (0, ())
