import json
import re
import shutil
from dataclasses import replace
from importlib.metadata import version

import pandas as pd
import pytest
import torch

from frostbench.benchmarks.runs.all_runs import count_runs, read_records, write_records
from frostbench.benchmarks.runs.record import OUTCOMES
from frostbench.benchmarks.runs.run_facts import environment
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import (
    SEAL,
    StoreError,
    is_finished,
    read_outcomes,
    read_record,
    require_runs,
    run_folder,
    save_run,
)
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.bundle.export import load
from frostbench.training.metrics.classification import confusion, per_class

ROWS = {
    "narrow": {"preset": "full", "head.body.hidden": [8], "train.schedule.epochs": 2, "train.schedule.min_steps": 0}
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_cache):
    """A store of two runs, trained once."""
    folder = tmp_path_factory.mktemp("recorded")
    base = {"train.schedule.epochs": 2, "train.schedule.min_steps": 0, "train.optim.lr": 0.02}
    cache = str(write_cache(folder / "cache"))
    list(run_bench(BenchSpec(caches=(cache,), store=str(folder / "s"), base=base, seeds=(4,), toggles=ROWS)))
    return folder / "s"


@pytest.fixture
def store(trained, tmp_path):
    """A copy of that store, to be changed."""
    return shutil.copytree(trained, tmp_path / "s")


def base_key(store):
    (key,) = [key for key in read_records(store)["key"] if "head" not in read_record(store, key).spec]
    return key


def test_a_record_reads_back_as_it_was_written(store):
    record = read_record(store, base_key(store))
    assert (record.seed, record.reason, record.epoch > 0, record.format_version) == (4, "all_epochs", True, 1)
    assert record.spec["train"]["optim"] == {"kind": "adamw", "lr": 0.02}
    assert record.full_spec["train"]["optim"] == {"kind": "adamw", "lr": 0.02, "weight_decay": 0.01}
    assert record.data.rows == {"train": 142, "select": 44, "calibrate": 30, "test": 56}
    assert sum(record.data.train_counts) == 142
    assert record.shot == tuple("medium" if n >= 20 else "few" for n in record.data.train_counts)
    assert len(record.curve["loss"]) == len(record.curve["macro_f1_fg"]) == 2
    assert record.environment["torch"] == torch.__version__.split("+")[0]
    assert set(record.evaluations) == {"select", "test"}


@pytest.mark.parametrize("role", ["select", "test"])
def test_arrays_of_a_record_agree_with_its_outcomes(store, role):
    record = read_record(store, base_key(store))
    rows = read_outcomes(store, record.key, role)
    assert tuple(rows.columns) == OUTCOMES
    table = confusion(torch.tensor(rows["label"].to_numpy()), torch.tensor(rows["predicted"].to_numpy()), 6)
    found = torch.zeros(6, 6, dtype=torch.int64)
    for label, predicted, count in record.evaluations[role].confusion:
        found[label, predicted] = count
    assert torch.equal(found, table)
    assert record.evaluations[role].per_class["f1"] == tuple(per_class(table).f1.tolist())
    assert record.evaluations[role].per_class["support"] == tuple(table.sum(1).tolist())
    metrics = record.evaluations[role].metrics
    assert metrics["accuracy"] == pytest.approx((rows["label"] == rows["predicted"]).mean())
    assert metrics["nll"] == pytest.approx(-rows["log_p"].mean())
    assert metrics["brier"] == pytest.approx(rows["brier"].mean())


def test_the_flat_view_has_one_row_per_run(store):
    flat = read_records(store).set_index("key")
    assert len(flat) == 2
    record = read_record(store, base_key(store))
    assert flat.loc[record.key, "spec.train.optim.lr"] == 0.02
    assert flat.loc[record.key, "select.accuracy"] == record.evaluations["select"].metrics["accuracy"]
    assert flat.loc[record.key, "table"] == record.data.table
    narrow = flat.drop(record.key).iloc[0]
    assert narrow["spec.head.body.hidden"] == [8]


def test_the_flat_file_keeps_settings_as_json(store):
    path, unreadable = write_records(store)
    flat = pd.read_parquet(path)
    assert unreadable == ()
    settings = {json.loads(value)[0] for value in flat["spec.head.body.hidden"].dropna()}
    assert settings == {8}
    assert flat["test.nll"].dtype == "float64"


def test_an_empty_store_has_no_runs(tmp_path):
    assert len(read_records(tmp_path)) == 0


def test_a_run_appears_whole_or_not_at_all(store, monkeypatch):
    key = base_key(store)
    record, outcomes = read_record(store, key), pd.read_parquet(run_folder(store, key) / "outcomes.parquet")
    head = load(run_folder(store, key) / "head").head

    def failing(head, folder, canary):
        folder.mkdir()
        raise OSError("disk full")

    monkeypatch.setattr("frostbench.benchmarks.runs.store.export.fill", failing)
    with pytest.raises(OSError, match="disk full"):
        save_run(store, replace(record, key="new"), outcomes, head, None)
    assert not is_finished(store, "new")
    assert len(list((store / "runs").iterdir())) == 2


def test_a_run_saved_twice_keeps_the_first(store):
    key = base_key(store)
    record, outcomes = read_record(store, key), pd.read_parquet(run_folder(store, key) / "outcomes.parquet")
    head = load(run_folder(store, key) / "head").head
    save_run(store, replace(record, seconds=1e9), outcomes, head, None)
    assert read_record(store, key) == record
    assert len(list((store / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda text: text[: len(text) // 2],
            r"must be a record of format 1, but is not: : Invalid JSON.*written by an unknown version",
        ),
        (lambda text: text.replace('"engine"', '"motor"'), "engine: Field required; motor: Unexpected"),
        (
            lambda text: text.replace('"format_version": 1', '"format_version": 2'),
            rf"format_version: Input should be 1 \(written by frostbench {version('frostbench')} in format 2\)",
        ),
        (lambda text: text.replace('"format_version": 1,', ""), "Field required .*in format none"),
        (
            lambda text: text.replace('"seconds": ', '"seconds": "fast", "x": '),
            "seconds: Input should be a valid number",
        ),
    ],
)
def test_a_broken_record_is_an_error_that_names_the_file(store, spoil, words):
    key = base_key(store)
    path = run_folder(store, key) / "record.json"
    facts = read_record(store, key).data
    path.write_text(spoil(path.read_text()))
    found, unreadable = write_records(store)
    assert (len(pd.read_parquet(found)), unreadable) == (1, (key,))
    seen, uncounted = count_runs(store, facts.split)
    assert seen + len(uncounted) == 2
    with pytest.raises(StoreError, match=words) as told:
        read_records(store)
    assert str(path) in str(told.value)
    assert "Delete its folder" in str(told.value)


@pytest.mark.parametrize("old", ['"seconds": ', '"macro_f1_fg": ', '"epoch": ', '"temperature": '])
def test_a_record_with_another_number_is_refused(store, old):
    """The digest covers the whole record, so an edited or half-restored file is never shown."""
    key = base_key(store)
    path = run_folder(store, key) / "record.json"
    path.write_text(re.sub(old + "[0-9.e-]+", old + "3", path.read_text(), count=1))
    with pytest.raises(StoreError, match=r"was changed after the run wrote it"):
        read_record(store, key)


def test_a_record_with_a_number_that_is_none_is_refused(store):
    """Python's JSON reads NaN, which the digest does not accept."""
    path = run_folder(store, base_key(store)) / "record.json"
    path.write_text(re.sub('"seconds": [0-9.e-]+', '"seconds": NaN', path.read_text(), count=1))
    with pytest.raises(StoreError, match=r"was changed after the run wrote it|seconds: Input should"):
        read_record(store, base_key(store))


def test_a_record_is_the_same_in_another_layout(store):
    key = base_key(store)
    path, record = run_folder(store, key) / "record.json", read_record(store, key)
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(tree.items())), indent=4))
    assert read_record(store, key) == record


def test_a_record_from_before_there_were_digests_is_read(store):
    key = base_key(store)
    path, record = run_folder(store, key) / "record.json", read_record(store, key)
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k not in (SEAL, "digests")}))
    assert read_record(store, key) == replace(record, digests={})
    assert len(read_outcomes(store, key, "select")) == record.data.rows["select"]


def test_outcomes_of_another_run_are_refused(store):
    """The file is valid, but belongs to another run."""
    key = base_key(store)
    path = run_folder(store, key) / "outcomes.parquet"
    rows = pd.read_parquet(path)
    rows.assign(log_p=rows["log_p"] * 2).to_parquet(path, index=False)
    with pytest.raises(StoreError, match="its content is not what the run wrote"):
        read_outcomes(store, key, "select")


def test_few_rows_without_runs_are_named(store):
    rows = dict.fromkeys("abcde", ("none",))
    with pytest.raises(StoreError, match=r"of row 'b', 1 of 1 run of row 'c' and runs of 2 other rows on cache c\. "):
        require_runs(store, rows, "c")


def test_missing_things_are_told_with_what_to_do(store):
    with pytest.raises(StoreError, match="The run is not in the store"):
        read_record(store, "0123456789abcdef")
    require_runs(store, {"a": (base_key(store),)}, "c")
    with pytest.raises(StoreError, match=r"lacks 1 of 2 runs of row 'a' on cache c\. Run the bench first"):
        require_runs(store, {"a": (base_key(store), "0123456789abcdef")}, "c")
    with pytest.raises(StoreError, match="has none with role 'train'"):
        read_outcomes(store, base_key(store), "train")
    (run_folder(store, base_key(store)) / "outcomes.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="Cannot read the outcomes of a run"):
        read_outcomes(store, base_key(store), "select")


def test_the_environment_names_device_threads_and_versions():
    here = environment("cpu")
    assert here["device"] == "cpu"
    assert {"python", "machine", "threads", "torch", "numpy", "frostbench"} <= set(here)
