"""Copying runs from one store to another."""

import pytest

from frostbench.benchmarks.runs import taking_over
from frostbench.benchmarks.runs.store import is_finished, read_outcomes, read_record
from frostbench.benchmarks.runs.taking_over import take_over
from frostbench.benchmarks.speed.fake_runs import write_fake_runs


@pytest.fixture
def run(tmp_path):
    """A store and the key of a run in it."""
    key, _ = write_fake_runs(tmp_path / "from", rows=60, classes=4)
    folder = tmp_path / "from" / "runs" / key
    (folder / "head").mkdir(exist_ok=True)
    (folder / "head" / "card.json").write_text("{}")
    return tmp_path / "from", key


@pytest.mark.parametrize("same_disk", [True, False])
def test_a_run_is_the_same_in_another_store(tmp_path, run, monkeypatch, same_disk):
    store, key = run
    if not same_disk:
        monkeypatch.setattr(taking_over.os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError("another disk")))
    assert take_over(key, store, tmp_path / "to")
    assert read_record(tmp_path / "to", key) == read_record(store, key)
    assert read_outcomes(tmp_path / "to", key, "select").equals(read_outcomes(store, key, "select"))
    assert (tmp_path / "to" / "runs" / key / "head" / "card.json").read_text() == "{}"
    assert [path.name for path in (tmp_path / "to" / "runs").iterdir()] == [key]
    mode = (store / "runs" / key).stat().st_mode
    assert (tmp_path / "to" / "runs" / key).stat().st_mode == mode
    assert take_over(key, store, tmp_path / "to")


@pytest.mark.parametrize("spoil", ["link", "folder link", "damaged", "other key"])
def test_what_is_not_a_plain_run_is_left_where_it_is(tmp_path, run, spoil):
    store, key = run
    folder = store / "runs" / key
    if spoil == "link":
        (folder / "head" / "weights").symlink_to("/etc/hostname")
    elif spoil == "folder link":
        folder.rename(tmp_path / "real")
        folder.symlink_to(tmp_path / "real")
    elif spoil == "damaged":
        (folder / "record.json").write_text("{")
    else:
        folder.rename(store / "runs" / "0123456789abcdef")
        key = "0123456789abcdef"
    assert not take_over(key, store, tmp_path / "to")
    assert not is_finished(tmp_path / "to", key)
    assert not (tmp_path / "to").exists()
