"""Tuned benches: notes on the winners."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tuned_benches import change_metric, tuned_bench

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.comparison.notes import notes_of
from frostbench.benchmarks.comparison.paired import load
from frostbench.benchmarks.comparison.tables import save, to_text
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.runner import bench_rows
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.heads.bundle.export import load as load_bundle
from frostbench.training.run import RunSpec


class TestComparing:
    def found(self, trained, role="select", bench=None):
        bench = bench or tuned_bench(trained.folder)
        (chosen,) = chosen_rows(bench)
        return compare(trained.folder / "s", chosen.rows, role=role, resamples=50, tuned=chosen.tuned)

    def test_the_figures_are_those_of_the_winners(self, trained):
        found = self.found(trained)
        (chosen,) = chosen_rows(tuned_bench(trained.folder))
        assert found.line("plain", "macro_f1_fg")["value"] == pytest.approx(
            chosen.tuned["plain"].winner.value, abs=1e-6
        )
        assert list(found.rows) == ["plain", "smooth", "solved"]

    def test_the_notes_say_budget_winners_edges_and_optimism(self, trained):
        notes = "\n".join(self.found(trained).notes)
        won = {name: one.winner.value for name, one in chosen_rows(tuned_bench(trained.folder))[0].tuned.items()}
        assert (
            "Each row is the best of 2 settings by validation macro F1, averaged over 2 seeds. "
            f"Winners: 'plain' with lr=0.1 ({won['plain']:.4f}); 'smooth' with lr=0.05 ({won['smooth']:.4f})."
        ) in notes
        assert "had fewer settings to choose from: 'solved' (1 instead of 2)." in notes
        assert "may lie beyond: 'plain' Learning rate (train.optim.lr) = 0.1 (largest of 2); 'smooth' Learning" in notes
        assert "on the validation rows that also chose the settings, so they are optimistic" in notes
        assert "chose their epoch on the images" not in notes
        assert "Rows differ in schedule" not in notes

    def test_settings_that_are_equally_good_have_no_edge_and_are_told(self, folder):
        bench = tuned_bench(folder)
        for row in ("plain @ lr=1e-06", "plain @ lr=0.1"):
            for key in bench_rows(bench)[0].rows[row]:
                change_metric(folder, key, "macro_f1_fg", 0.25)
                change_metric(folder, key, "nll", 1.5)
        notes = "\n".join(self.found(SimpleNamespace(folder=folder)).notes)
        assert (
            "All settings of 'plain' perform equally, so the first one listed is used, and the options that they "
            "change may have no effect."
        ) in notes
        assert "'plain' lr=" not in notes
        assert "'smooth' Learning rate (train.optim.lr) = 0.05 (largest of 2)" in notes

    def test_on_test_rows_nothing_is_called_optimistic(self, trained):
        notes = "\n".join(self.found(trained, "test").notes)
        assert "Each row is the best of 2 settings by validation macro F1" in notes
        assert "optimistic" not in notes

    def test_schedules_are_compared_with_all_that_a_row_may_choose_from(self, trained):
        """Winners differ in schedule, but had the same schedules to choose from."""
        store, rows = trained.folder / "s", chosen_rows(tuned_bench(trained.folder))[0]
        paired = load(store, rows.rows, "select")
        long = RunSpec.model_validate(paired.records["plain"][0].full_spec | {"seed": 0})
        long = long.model_copy(update={"train": parse_epochs(long, 99)})
        both = {name: with_schedules(rows.tuned[name], long) for name in ("plain", "smooth")}
        alone = {"plain": both["plain"], "smooth": rows.tuned["smooth"]}
        told = ["\n".join(notes_of(paired, "select", (), tuned)) for tuned in (both, alone)]
        assert ["Rows differ in schedule or patience" in notes for notes in told] == [False, True]

    def test_the_report_and_the_saved_table_list_every_setting(self, trained, tmp_path):
        found = self.found(trained)
        html = write_report([found], trained.folder / "s", tmp_path / "report.html").read_text("utf-8")
        assert "Settings tried" in html
        assert "Each row is the best of 2 settings" in html
        for line in found.settings:
            assert f'<td class="left wrap">{line["setting"] or "nothing to tune"}</td>' in html
            assert f"<td>{line['value']:.4f}</td>" in html
        save(found, tmp_path / "table.json")
        kept = json.loads((tmp_path / "table.json").read_text())["settings"]
        assert [(line["row"], line["setting"], line["won"]) for line in kept] == [
            ("plain", "lr=1e-06", False),
            ("plain", "lr=0.1", True),
            ("smooth", "lr=0.05", True),
            ("smooth", "lr=1e-06", False),
            ("solved", "", True),
        ]
        assert kept[1]["runs"] == list(found.rows["plain"])

    def test_without_tuning_nothing_is_said_of_it(self, trained):
        rows = chosen_rows(tuned_bench(trained.folder))[0].rows
        found = compare(trained.folder / "s", rows, resamples=20)
        assert found.settings == ()
        assert not re.search(r"settings|lie beyond|Winners:", to_text(found).split("Note: ", 1)[1])

    def test_the_winner_is_exported(self, trained, tmp_path):
        told = export_row(tuned_bench(trained.folder), "plain", tmp_path / "head", refit=False)
        assert "row 'plain' with lr=0.1, seed " in told
        facts = load_bundle(tmp_path / "head").head.facts
        assert facts["run"]["train"]["optim"]["lr"] == 0.1
        assert facts["key"] in chosen_rows(tuned_bench(trained.folder))[0].rows["plain"]


def parse_epochs(spec, epochs):
    schedule = spec.train.schedule.model_copy(update={"epochs": epochs})
    return spec.train.model_copy(update={"schedule": schedule})


def with_schedules(tuned, other):
    """The same bench, with a different schedule in one of the settings."""
    return replace(tuned, tried=(tuned.tried[0], replace(tuned.tried[1], spec=other)))
