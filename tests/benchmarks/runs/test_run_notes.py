"""Notes of runs: stored in one field of their record, and shown once in each place."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from frostbench.app.actions.bench_output import format_run, format_setting
from frostbench.benchmarks.api import compare, fit
from frostbench.benchmarks.runs.events import RunDone
from frostbench.benchmarks.runs.record import notes_by_seed
from frostbench.benchmarks.runs.store import SEAL, StoreError, read_record, run_folder
from frostbench.heads.bundle.export import save

UNSURE = {"train.loss.smoothing.epsilon": 0.5, "posthoc.calibration.kind": "none"}


@pytest.fixture(scope="module")
def arrays():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(5).repeat_interleave(60)
    return (3 * torch.eye(5, 16)[labels] + 0.3 * torch.randn(300, 16, generator=draw)).numpy(), labels.numpy()


@pytest.fixture(scope="module")
def run(arrays, tmp_path_factory):
    store = tmp_path_factory.mktemp("notes") / "store"
    return SimpleNamespace(store=store, head=fit(*arrays, UNSURE, preset="plain", split={"test": 0}, store=store))


def test_a_run_found_again_has_the_notes_of_its_training(arrays, run):
    again = fit(*arrays, UNSURE, preset="plain", split={"test": 0}, store=run.store)
    (note,) = run.head.record.notes
    assert again.warnings.count(note) == run.head.warnings.count(note) == 1


def test_they_reach_the_card_once(run, tmp_path):
    (note,) = run.head.record.notes
    card = (run_folder(run.store, run.head.record.key) / "head" / "card.json").read_text()
    assert card.count(json.dumps(note)) == 1
    save(run.head.head, tmp_path / "head")
    assert run.head.is_refitted
    assert (tmp_path / "head" / "card.json").read_text().count(json.dumps(note)) == 1


def test_they_reach_a_comparison_once(arrays):
    found = compare(*arrays, {"plain": {}, "unsure": UNSURE}, preset="plain", seeds=(0, 1))
    assert str(found).count("badly underconfident") == 1
    (note,) = (note for note in found.comparison.notes if "badly underconfident" in note)
    assert note.startswith("unsure, seed 0")


def test_they_are_printed_once_with_the_seeds_that_say_so(run):
    record = replace(run.head.record, notes=("a gap of 0.31", "lies at the bound"))
    others = [replace(record, full_spec=record.full_spec | {"seed": n}, notes=(f"a gap of 0.3{n}",)) for n in (1, 2)]
    done = [RunDone("cache", "row", each, run.store) for each in (record, *others)]
    seeds = ["seed 0, 1: a gap of 0.31 (seed 2: similar)", "seed 0: lies at the bound"]
    assert notes_by_seed([each.record for each in done]) == seeds
    assert format_setting(done).endswith("; ".join(["", *seeds]))
    assert format_run(done[0]).splitlines()[1:] == ["    note: a gap of 0.31", "    note: lies at the bound"]


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({}, ()),
        ({"notes": ["a"]}, ("a",)),
        ({"warnings": ["b"]}, ("b",)),
        ({"warnings": ["b"], "notes": ["a"]}, ("b", "a")),
    ],
)
def test_records_with_either_field_are_read(run, tmp_path, fields, notes):
    key = run.head.record.key
    known = json.loads((run_folder(run.store, key) / "record.json").read_text())
    del known["notes"], known[SEAL]
    folder = run_folder(tmp_path, key)
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(known | fields))
    assert read_record(tmp_path, key) == replace(run.head.record, notes=notes)
    (folder / "record.json").write_text(json.dumps(known | {"warnings": 3}))
    with pytest.raises(StoreError, match="must be a record of format 1"):
        read_record(tmp_path, key)
