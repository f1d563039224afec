"""Ensembles as rows of a bench: judged from the heads of the store, kept, compared and exported."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import benchmarks.ensembles as ensembles
from benchmarks.ab import pair
from benchmarks.arrays import cache_of
from benchmarks.changes import option_changes
from benchmarks.compare import compare
from benchmarks.events import BenchDone, BenchStopped, RowStarted, RunDone, RunFailed, RunSkipped
from benchmarks.exporting import export_row
from benchmarks.inference import predict_table
from benchmarks.keys import ensemble_key
from benchmarks.plan import BenchSpec, expand
from benchmarks.report import write_report
from benchmarks.runner import run_bench
from benchmarks.settings import SettingsError
from benchmarks.store import StoreError, is_finished, read_outcomes, read_record, run_folder
from benchmarks.tuning import chosen_rows
from embedcache.splits.making import load_or_make_split
from embedcache.table import read_table
from heads.export import load
from training.events import Failed, Finished
from training.metrics import all_metrics

BASE = {
    "train.schedule.epochs": 3,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 64,
    "train.optim.lr": 0.02,
    "posthoc.calibration.kind": "temperature",
}
TOGGLES = {"logreg": {"head.classifier.kind": "logreg"}, "ncm": {"head.classifier.kind": "ncm"}}
ENSEMBLES = {"both": ("plain", "logreg"), "all": ("ncm", "plain", "logreg")}


def bench_of(cache, **fields):
    known = {"caches": (str(cache),), "store": str(cache.parent / "runs"), "preset": "plain", "base": BASE}
    return BenchSpec(**(known | {"toggles": TOGGLES, "ensembles": ENSEMBLES, "seeds": (0, 1)} | fields))


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.fixture(scope="module")
def ran(write_cache, tmp_path_factory):
    """The bench after its run, with its events."""
    bench = bench_of(write_cache(tmp_path_factory.mktemp("ensembles") / "cache"))
    return bench, list(run_bench(bench))


def by_hand(bench, rows, seed, role):
    """The mean of the probabilities [N, C] of the heads of rows, their labels and ids."""
    store, cache = bench.store, bench.caches[0]
    table = read_table(Path(cache))
    chosen = load_or_make_split(Path(cache), table, bench.split).roles == role
    vectors = torch.from_numpy(table.columns["toy"][chosen].astype(np.float32))
    keys = chosen_rows(bench)[0].rows
    folders = [run_folder(Path(store), keys[row][bench.seeds.index(seed)]) / "head" for row in rows]
    each = [load(folder).head.log_probabilities({"toy": vectors}).double().exp() for folder in folders]
    return sum(each) / len(each), torch.from_numpy(table.labels[chosen]), table.ids[chosen]


@pytest.mark.parametrize("role", ["select", "test"])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_figures_are_those_of_the_averaged_probabilities(ran, name, role):
    bench, events = ran
    done = [event.record for event in kinds(events, RunDone) if event.row == name]
    assert [record.seed for record in done] == [0, 1]
    for record in done:
        mean, labels, ids = by_hand(bench, ENSEMBLES[name], record.seed, role)
        counts = torch.tensor(record.data.train_counts)
        wanted = all_metrics(mean.log(), labels, counts)
        assert record.evaluations[role].metrics == pytest.approx(wanted, abs=1e-9)
        outcomes = read_outcomes(Path(bench.store), record.key, role).set_index("id").loc[ids]
        assert outcomes["predicted"].tolist() == mean.argmax(1).tolist()
        assert outcomes["confidence"].to_numpy() == pytest.approx(mean.amax(1).numpy(), abs=1e-9)
        own = mean[torch.arange(len(labels)), labels].log()
        assert outcomes["log_p"].to_numpy() == pytest.approx(own.numpy(), abs=1e-9)


def test_the_record_names_the_members_and_the_store_has_no_second_copy_of_heads(ran):
    bench, events = ran
    store, rows = Path(bench.store), chosen_rows(bench)[0].rows
    assert list(rows) == ["plain", "logreg", "ncm", "both", "all"]
    for seed in (0, 1):
        members = sorted((rows["plain"][seed], rows["logreg"][seed]))
        record = read_record(store, rows["both"][seed])
        assert (record.members, record.full_spec, record.spec) == (tuple(members), {"seed": seed}, {})
        assert (record.reason, record.temperature, record.curve, record.gradient_norm) == ("averaged", 1.0, {}, None)
        assert record.seconds == pytest.approx(sum(read_record(store, key).seconds for key in members))
        assert record.key == ensemble_key(members[::-1])
        assert not (run_folder(store, record.key) / "head").exists()
    flat = pd.read_parquet(kinds(events, BenchDone)[0].records).set_index("key")["members"]
    assert flat[rows["both"][0]] == ",".join(sorted((rows["plain"][0], rows["logreg"][0])))
    assert flat[rows["plain"][0]] == ""


def test_events_count_ensembles_as_rows_and_a_second_start_judges_nothing(ran, monkeypatch):
    bench, events = ran
    started = [(event.row, event.number, event.rows) for event in kinds(events, RowStarted)]
    assert started == [("plain", 1, 5), ("logreg", 2, 5), ("ncm", 3, 5), ("both", 4, 5), ("all", 5, 5)]
    assert (events[-1].trained, events[-1].skipped, events[-1].failed) == (10, 0, ())
    monkeypatch.setattr(ensembles, "evaluate", None)
    monkeypatch.setattr(ensembles, "load_head", None)
    again = list(run_bench(bench))
    assert not kinds(again, RunDone)
    keys = {(event.row, event.seed): event.key for event in kinds(again, RunSkipped)}
    assert {keys["both", 0], keys["both", 1]} == set(chosen_rows(bench)[0].rows["both"])
    assert (again[-1].trained, again[-1].skipped) == (0, 10)


def test_the_order_of_members_and_the_name_change_no_key(ran):
    bench, _ = ran
    other = bench.model_copy(update={"ensembles": {"renamed": ("logreg", "plain")}})
    assert chosen_rows(other)[0].rows["renamed"] == chosen_rows(bench)[0].rows["both"]
    assert chosen_rows(bench, ["both"])[0].rows == {"both": chosen_rows(bench)[0].rows["both"]}


@pytest.mark.parametrize("baseline", ["plain", "both"])
def test_comparison_and_report_take_ensembles(ran, baseline, tmp_path):
    bench, _ = ran
    store, rows = Path(bench.store), chosen_rows(bench)[0].rows
    found = compare(store, rows, baseline, "select", title="test")
    record = [read_record(store, key).evaluations["select"].metrics["macro_f1_fg"] for key in rows["both"]]
    assert found.line("both", "macro_f1_fg")["value"] == pytest.approx(sum(record) / 2)
    page = write_report([found], store, tmp_path / "report.html").read_text()
    assert "mean of 3 runs: " in page
    assert not any("Rows differ in schedule" in note for note in found.notes)


def test_two_sides_may_be_a_run_and_an_ensemble(ran):
    bench, _ = ran
    store, rows = Path(bench.store), chosen_rows(bench)[0].rows
    found = pair(store, rows["plain"], rows["both"])
    plain, both = (side.parameters for side in found.sides)
    assert (plain, both) == (8 * 6 + 6, 2 * (8 * 6 + 6))
    members = ", ".join(sorted((rows["plain"][0], rows["logreg"][0])))
    assert [(one.path, one.before, one.after) for one in found.options] == [
        ("members", None, f"mean of 2 runs: {members}")
    ]
    first, second = (read_record(store, rows[name][0]) for name in ("both", "plain"))
    (back,) = option_changes(first, second)
    assert (back.before, back.after) == (f"mean of 2 runs: {members}", "one run")


def test_an_ensemble_is_exported_for_the_best_seed_or_for_all(ran, tmp_path):
    bench, _ = ran
    store, rows = Path(bench.store), chosen_rows(bench)[0].rows
    records = [read_record(store, key) for key in rows["both"]]
    best = max(records, key=lambda record: record.selection_value)
    told = export_row(bench, "both", tmp_path / "one")
    assert told == f"{tmp_path / 'one'}: row 'both', seed {best.seed}, run {best.key}"
    bundle = load(tmp_path / "one")
    mean = by_hand(bench, ENSEMBLES["both"], best.seed, "select")[0]
    table = read_table(Path(bench.caches[0]))
    chosen = load_or_make_split(Path(bench.caches[0]), table, bench.split).roles == "select"
    x = {"toy": torch.from_numpy(table.columns["toy"][chosen].astype(np.float32))}
    assert torch.allclose(bundle.head.log_probabilities(x).exp(), mean, atol=1e-9)
    assert bundle.head.facts["metrics"]["select"] == best.evaluations["select"].metrics
    assert bundle.head.facts["runs"] == list(best.members)

    assert export_row(bench, "plain", tmp_path / "all", seeds="all").endswith("row 'plain', mean of seeds 0, 1")
    both = [by_hand(bench, ["plain"], seed, "select")[0] for seed in (0, 1)]
    heads = load(tmp_path / "all").head
    assert torch.allclose(heads.log_probabilities(x).exp(), sum(both) / 2, atol=1e-9)
    assert "was not judged" in heads.facts["note"]
    assert "metrics" not in heads.facts
    export_row(bench, "both", tmp_path / "four", seeds="all")
    assert len(load(tmp_path / "four").head.members) == 4
    with pytest.raises(ValueError, match="the bench has seed 0 alone"):
        export_row(bench.model_copy(update={"seeds": (0,)}), "plain", tmp_path / "no", seeds="all")


def test_an_ensemble_is_refitted_member_by_member(ran, tmp_path):
    bench, _ = ran
    told = export_row(bench, "both", tmp_path / "refit", refit=True)
    assert told.endswith(", refitted to 186 rows")
    head = load(tmp_path / "refit").head
    assert [int(member.counts.sum()) for member in head.members] == [186, 186]
    assert {member.facts["refit"]["of"] for member in head.members} == set(head.facts["runs"])
    assert "metrics" not in head.facts
    assert "none were computed of these" in head.facts["note"]
    assert sum(head.facts["data"]["train_counts"]) == 186
    export_row(bench, "plain", tmp_path / "all", seeds="all", refit=True)
    facts = load(tmp_path / "all").head.facts
    assert facts["note"].endswith("figures of its run, before its refit to training and selection rows.")
    assert sum(facts["data"]["train_counts"]) == 186


def test_an_ensemble_whose_member_failed_is_skipped_and_tried_again(cache, monkeypatch):
    import benchmarks.runner as runner

    bench, real = bench_of(cache, seeds=(0,)), runner.fit

    def failing(runs, data, stop, checkpoints):
        for event in real(runs, data, stop, checkpoints):
            is_ncm = runs[event.run].head.classifier.kind == "ncm"
            yield Failed(event.run, "it diverged.") if is_ncm and isinstance(event, Finished) else event

    monkeypatch.setattr(runner, "fit", failing)
    *events, end = run_bench(bench)
    told = {event.row: event.message for event in kinds(events, RunFailed)}
    assert told["all"].startswith("an ensemble averages finished runs, however: those of ['ncm'] are not in the store")
    assert set(told) == {"ncm", "all"}
    assert {event.row for event in end.failed} == {"ncm", "all"}
    monkeypatch.undo()
    again = list(run_bench(bench))
    assert {event.row for event in kinds(again, RunDone)} == {"ncm", "all"}


def test_a_stopped_bench_does_not_tell_of_ensembles(cache):
    events = list(run_bench(bench_of(cache), stop=lambda: True))
    assert isinstance(events[-1], BenchStopped)
    assert not kinds(events, RunFailed)
    assert not any(event.row in ENSEMBLES for event in kinds(events, RowStarted))


def test_a_tuned_bench_averages_the_winners(cache):
    tune = {"plain": {"train.optim.lr": (0.0001, 0.05)}, "logreg": {"head.classifier.c": (0.01, 10.0)}, "ncm": {}}
    bench = bench_of(cache, tune=tune, ensembles={"both": ("plain", "logreg")}, seeds=(0,))
    events = list(run_bench(bench))
    (part,) = chosen_rows(bench)
    (record,) = [event.record for event in kinds(events, RunDone) if event.row == "both"]
    assert record.members == tuple(sorted((part.rows["plain"][0], part.rows["logreg"][0])))
    assert part.rows["both"] == (record.key,)
    assert list(part.tuned) == ["plain", "logreg", "ncm"]
    found = compare(Path(bench.store), part.rows, "plain", "select", title="tuned", tuned=part.tuned)
    assert "both" in write_report([found], Path(bench.store), cache.parent / "report.html").read_text()
    assert chosen_rows(bench, ["both"])[0].tuned == {}
    mean, labels, _ = by_hand(bench, ["plain", "logreg"], 0, "select")
    wanted = all_metrics(mean.log(), labels, torch.tensor(record.data.train_counts))
    assert record.evaluations["select"].metrics == pytest.approx(wanted, abs=1e-9)


def test_members_may_read_other_columns(tmp_path):
    generator = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], 40)
    columns = {"a": generator.normal(0, 1, (120, 3)) + labels[:, None], "b": generator.normal(0, 1, (120, 2))}
    names = [("ash", "beech", "cedar")[label] for label in labels]
    cache = cache_of(columns, names, [f"g{row}" for row in range(120)], None, None, tmp_path / "cache")
    rows = {"b alone": {"columns": ["b"]}, "both": {"columns": ["b", "a"]}}
    bench = bench_of(cache, toggles=rows, ensembles={"mean": ("plain", "b alone", "both")}, seeds=(0,))
    (record,) = [event.record for event in kinds(run_bench(bench), RunDone) if event.row == "mean"]
    assert sorted(record.data.columns) == ["a", "b"]
    export_row(bench, "mean", tmp_path / "bundle")
    table = read_table(cache)
    found = predict_table(load(tmp_path / "bundle").head, table)
    heads = [load(run_folder(Path(bench.store), key) / "head").head for key in record.members]
    x = {name: torch.from_numpy(each.astype(np.float32)) for name, each in table.columns.items()}
    mean = sum(head.log_probabilities(x).double().exp() for head in heads) / 3
    assert found["p:cedar"].to_numpy() == pytest.approx(mean[:, 2].numpy(), abs=1e-6)


def test_members_of_other_background_classes_are_no_ensemble(cache):
    toggles = {"other": {"background": ["fir"], "train.optim.lr": 0.01}}
    bench = bench_of(cache, toggles=toggles, ensembles={"both": ("plain", "other")}, seeds=(0,))
    (failed,) = kinds(run_bench(bench), RunFailed)
    assert "different runs with the same background classes, however: the rows ['plain', 'other']" in failed.message


def test_rows_whose_winners_are_one_run_are_no_ensemble(cache):
    tune = {"plain": {"train.optim.lr": (0.0001, 0.05)}, "other": {"train.optim.lr": (0.0002, 0.05)}}
    toggles = {"other": {"train.optim.weight_decay": 0.01, "train.ema": 0.0, "train.optim.lr": 0.3}}
    bench = bench_of(cache, tune=tune, toggles=toggles, ensembles={"both": ("plain", "other")}, seeds=(0,))
    (failed,) = kinds(run_bench(bench), RunFailed)
    assert (failed.row, failed.seed) == ("both", 0)
    assert "members of an ensemble are different runs" in failed.message
    with pytest.raises(StoreError, match="Run the bench first"):
        export_row(bench, "both", cache.parent / "out")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"both": ("plain", "logregg")}, r"averages rows of this bench, \['plain', 'logreg', 'ncm'\], .*\['logregg'\]"),
        ({"both": ("plain", "plain")}, "the members of an ensemble differ"),
        ({"ncm": ("plain", "logreg")}, "'ncm' is a row"),
        ({"one": ("plain", "ncm"), "two": ("ncm", "plain")}, "'two' has the same members as 'one'"),
        ({"one": ("plain", "logreg"), "two": ("one", "plain")}, r"'two' names \['one'\]"),
    ],
)
def test_ensembles_that_are_not_possible_are_refused(cache, asked, told):
    with pytest.raises(SettingsError, match=told):
        expand(bench_of(cache, ensembles=asked))


def test_an_ensemble_of_one_row_is_refused(cache):
    with pytest.raises(ValueError, match="at least 2 items"):
        bench_of(cache, ensembles={"both": ("plain",)})


def test_a_cross_validated_bench_has_no_ensembles(cache):
    with pytest.raises(SettingsError, match="whose kept heads were fitted to all rows"):
        list(run_bench(bench_of(cache, split={"folds": 3, "test": 0})))


def test_records_of_before_have_no_members(ran):
    bench, _ = ran
    record = read_record(Path(bench.store), chosen_rows(bench)[0].rows["plain"][0])
    assert record.members == ()
    assert is_finished(Path(bench.store), record.key)
    assert replace(record, members=("a", "b")).members == ("a", "b")
    assert math.isfinite(record.seconds)
