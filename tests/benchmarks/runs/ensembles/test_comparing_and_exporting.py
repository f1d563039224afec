"""Ensembles are compared, exported and refitted."""

from pathlib import Path

import numpy as np
import pytest
import torch
from averaged_benches import ENSEMBLES, by_hand

from frostbench.benchmarks.comparison.ab import pair
from frostbench.benchmarks.comparison.changes import option_changes
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load


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
    told = export_row(bench, "both", tmp_path / "one", refit=False)
    assert told == f"{tmp_path / 'one'}: row 'both', seed {best.seed}, run {best.key}"
    bundle = load(tmp_path / "one")
    mean = by_hand(bench, ENSEMBLES["both"], best.seed, "select")[0]
    table = read_table(Path(bench.caches[0]))
    chosen = load_or_make_split(Path(bench.caches[0]), table, bench.split).roles == "select"
    x = {"toy": torch.from_numpy(table.columns["toy"][chosen].astype(np.float32))}
    assert torch.allclose(bundle.head.log_probabilities(x).exp(), mean, atol=1e-9)
    assert bundle.head.facts["metrics"]["select"] == best.evaluations["select"].metrics
    assert bundle.head.facts["runs"] == list(best.members)

    told = export_row(bench, "plain", tmp_path / "all", seeds="all", refit=False)
    assert told.endswith("row 'plain', mean of seeds 0, 1")
    both = [by_hand(bench, ["plain"], seed, "select")[0] for seed in (0, 1)]
    heads = load(tmp_path / "all").head
    assert torch.allclose(heads.log_probabilities(x).exp(), sum(both) / 2, atol=1e-9)
    assert "was not evaluated" in heads.facts["note"]
    assert "metrics" not in heads.facts
    export_row(bench, "both", tmp_path / "four", seeds="all", refit=False)
    assert len(load(tmp_path / "four").head.members) == 4
    with pytest.raises(ValueError, match="the bench has only seed 0"):
        export_row(bench.model_copy(update={"seeds": (0,)}), "plain", tmp_path / "no", seeds="all")


def test_an_ensemble_is_refitted_member_by_member(ran, tmp_path):
    bench, _ = ran
    told = export_row(bench, "both", tmp_path / "refit")
    assert told.endswith(", refitted to 186 rows")
    head = load(tmp_path / "refit").head
    assert [int(member.counts.sum()) for member in head.members] == [186, 186]
    assert {member.facts["refit"]["of"] for member in head.members} == set(head.facts["runs"])
    assert "metrics" not in head.facts
    assert "the refitted ensemble was not evaluated" in head.facts["note"]
    assert sum(head.facts["data"]["train_counts"]) == 186
    export_row(bench, "plain", tmp_path / "all", seeds="all", refit=True)
    facts = load(tmp_path / "all").head.facts
    assert facts["note"].endswith("metrics of its run, before its refit to training and validation rows.")
    assert sum(facts["data"]["train_counts"]) == 186
