"""The pages on the shipped benches: judging claims, tables over trials, and a page made from finished runs."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from short_benches import bench_of

import frostbench.benchmarks.results.ablation.running as running
from frostbench.benchmarks.comparison.deltas import BETTER, CANNOT_TELL, WORSE
from frostbench.benchmarks.results.ablation import hypotheses, pages
from frostbench.benchmarks.results.ablation.data_sets import DATA_SETS, Trial, short, trials
from frostbench.benchmarks.results.ablation.hypotheses import judge
from frostbench.benchmarks.results.ablation.running import PAGES
from frostbench.benchmarks.results.ablation.tables import frame_of, path_of, read_tables, save
from frostbench.benchmarks.results.calibration import STEPS
from frostbench.benchmarks.runs.runner import run_bench


def found(*lines):
    """Lines of one row and metric: difference, half the width of its interval, and verdict."""
    return pd.DataFrame([{"delta": d, "low": d - half, "high": d + half, "verdict": v} for d, half, v in lines])


@pytest.mark.parametrize(
    ("lines", "metric", "verdict"),
    [
        ([(0.03, 0.01, BETTER), (-0.01, 0.02, CANNOT_TELL)], "macro_f1_fg", "confirmed"),
        ([(0.03, 0.01, BETTER), (-0.05, 0.06, CANNOT_TELL)], "macro_f1_fg", "cannot be told"),
        ([(0.03, 0.01, BETTER), (-0.05, 0.01, WORSE)], "macro_f1_fg", "mixed"),
        ([(0.01, 0.05, CANNOT_TELL), (-0.05, 0.01, WORSE)], "macro_f1_fg", "contradicted"),
        ([(0.002, 0.005, CANNOT_TELL), (-0.001, 0.005, CANNOT_TELL)], "macro_f1_fg", "not seen"),
        ([(0.002, 0.005, CANNOT_TELL), (-0.001, 0.05, CANNOT_TELL)], "macro_f1_fg", "cannot be told"),
        ([(-0.1, 0.05, BETTER)], "nll", "confirmed"),
        ([(0.1, 0.05, WORSE)], "nll", "contradicted"),
        ([(0.01, 0.005, CANNOT_TELL)], "nll", "not seen"),
        ([], "nll", "not run"),
    ],
)
def test_claims_are_judged_by_the_stated_rule(lines, metric, verdict):
    assert judge(found(*lines), metric, 0.02 if metric == "nll" else 0.01).verdict == verdict


def test_the_smallest_visible_difference_is_half_the_narrowest_interval():
    judged = judge(found((0.01, 0.03, CANNOT_TELL), (-0.01, 0.02, CANNOT_TELL)), "ece", 0.01)
    assert (judged.trials, judged.smallest, judged.delta) == (2, pytest.approx(0.02), pytest.approx(0))


def test_every_page_has_trials_on_every_data_set(tmp_path):
    for bench in (bench for benches in PAGES.values() for bench in benches):
        made = list(trials(bench, tmp_path))
        assert len(made) == sum(len(data.backbones) for data in DATA_SETS)
        assert len({trial.file_name for trial in made}) == len(made)
        assert len({(trial.bench.caches, str(trial.bench.split)) for trial in made}) == len(made)
    (one,) = trials("phase1", tmp_path, ("plankton 100:1/lite0",))
    assert (one.name, one.bench.split.imbalance, one.bench.seeds) == ("plankton 100:1, lite0", 100, (0, 1, 2))
    with pytest.raises(ValueError, match=r"A part must be one of coins/lite0, .*, got coins. Name one"):
        list(trials("phase1", tmp_path, ("coins",)))


@pytest.fixture
def one_trial(cache, monkeypatch):
    """A short bench in place of the trials of every shipped bench."""
    toggles = {"ridge": {"preset": "ridge"}, "lda": {"preset": "lda"}}
    bench = bench_of(cache, preset="plain", toggles=toggles, name="full_ablation")
    trial = Trial(bench, "toy", "efficientnet_lite0")
    monkeypatch.setattr(running, "trials", lambda name, work, parts=(): iter([trial]))
    return trial


def test_a_page_is_made_from_finished_runs(one_trial, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    marker = pages.MARKER.format("full")
    (out / "full.md").write_text(f"# By hand\n\n{marker}\n\nold\n")
    lines = list(pages.regenerate("full", None, tmp_path, out, STEPS, ()))
    assert lines[0] == "full_ablation on toy, lite0: 6 runs trained, 0 found"
    text = (out / "full.md").read_text()
    assert text.startswith(f"# By hand\n\n{marker}\n\n## full_ablation\n")
    assert "old" not in text
    assert "Not run: coins, lite0; coins, lite2; coins, dinov2_small; " in text
    frame = read_tables(out, ["full_ablation"])
    line = frame[(frame["row"] == "lda") & (frame["metric"] == "macro_f1_fg")].iloc[0]
    assert f"| lda | {line['delta']:+.3f} [{line['low']:+.3f}, {line['high']:+.3f}]" in text
    base = frame[(frame["row"] == "plain") & (frame["metric"] == "nll")].iloc[0]
    assert f" {base['value']:.3f} |" in next(row for row in text.splitlines()[::-1] if row.startswith("| plain |"))
    assert set(frame["backbone"]) == {"lite0"}
    assert (frame["seconds"] > 0).all()


def test_runs_that_are_missing_are_left_out(one_trial, tmp_path):
    (left_out,) = running.compared("full_ablation", tmp_path)
    assert left_out.trial == one_trial
    told = pages.regenerate("full", None, tmp_path, tmp_path, ("report",), ())
    assert next(told).startswith("left out full_ablation on toy, lite0: ")
    with pytest.raises(ValueError, match=r"has no results of full_ablation. Run `--step train`"):
        list(told)


def test_a_trial_without_a_cache_is_left_out_with_the_reason(one_trial, tmp_path, monkeypatch):
    away = Trial(one_trial.bench.model_copy(update={"caches": ("no_such_cache",)}), "toy", "efficientnet_lite0")
    monkeypatch.setattr(running, "trials", lambda name, work, parts=(): iter([away]))
    (left_out,) = running.compared("full_ablation", tmp_path)
    assert left_out.reason == "the cache no_such_cache does not exist"


def test_a_trial_on_an_unfinished_cache_is_left_out(one_trial, tmp_path):
    Path(one_trial.bench.caches[0], "manifest.json").unlink()
    (left_out,) = running.compared("full_ablation", tmp_path)
    assert left_out.reason.startswith("A complete cache contains manifest.json, but ")


def test_a_claim_is_judged_against_the_row_that_it_names(one_trial, tmp_path):
    list(run_bench(one_trial.bench))
    claims = [
        {
            "id": "lda_is_better",
            "claim": "LDA is better.",
            "source": "nobody",
            "tests": [
                {"bench": "full_ablation", "row": "lda", "against": "ridge", "largest_among": ["plain"]},
                {"bench": "full_ablation", "row": "lda", "against": "plain"},
            ],
            "metrics": ["macro_f1_fg"],
            "direction": "up",
        },
        {
            "id": "far",
            "claim": "Far away.",
            "source": "x",
            "metrics": ["ece"],
            "direction": "up",
            "not_testable": "No.",
        },
    ]
    stated = {"worthwhile": {"macro_f1_fg": 0.01}, "hypotheses": claims}
    (tmp_path / "hypotheses.yaml").write_text(yaml.safe_dump(stated))
    list(hypotheses.regenerate(tmp_path, tmp_path))
    text = (tmp_path / "hypotheses.md").read_text()
    for against in ("ridge", "plain"):
        (_, comparison) = next(running.compared("full_ablation", tmp_path, against))
        line = comparison.line("lda", "macro_f1_fg")
        assert f"| toy, lite0 | {line['delta']:+.4f} [{line['low']:+.4f}, {line['high']:+.4f}]" in text
    assert text.count("| LDA is better. | `full_ablation` | macro F1 | ") == 2
    assert "largest mean gain: " in text
    assert "| Far away. |  |  | not testable: No. |" in text


def test_tables_hold_what_the_comparison_says(one_trial, tmp_path):
    list(run_bench(one_trial.bench))
    ((trial, comparison),) = running.compared("full_ablation", tmp_path)
    frame = frame_of(trial, comparison)
    assert len(frame) == len(comparison.table)
    save(frame, path_of(trial, tmp_path))
    assert (tmp_path / "tables" / "full_ablation_toy_lite0.csv").is_file()
    assert short("efficientnet_lite2") == "lite2"


def test_tables_are_read_in_the_order_of_the_data_sets(tmp_path):
    (tmp_path / "tables").mkdir()
    trials_read = [("blood cells 100:1", "lite0"), ("toy", "lite0"), ("blood cells", "lite0"), ("coins", "lite2")]
    for number, (data, backbone) in enumerate(trials_read):
        frame = pd.DataFrame({"bench": ["factorial"], "data": [data], "backbone": [backbone]})
        frame.to_csv(tmp_path / "tables" / f"{number}.csv", index=False)
    pd.DataFrame({"strategy": ["margin"]}).to_csv(tmp_path / "tables" / "of another page.csv", index=False)
    assert read_tables(tmp_path)["data"].tolist() == ["coins", "blood cells", "blood cells 100:1", "toy"]


def test_a_page_says_which_of_its_benches_were_not_run(one_trial, tmp_path, monkeypatch):
    list(run_bench(one_trial.bench))
    ((trial, comparison),) = running.compared("full_ablation", tmp_path)
    save(frame_of(trial, comparison), path_of(trial, tmp_path))
    monkeypatch.setitem(PAGES, "full", ("factorial", "full_ablation"))
    text = pages.write_page("full", tmp_path).read_text()
    assert "## factorial\n\nNot run yet.\n\n## full_ablation\n\n| data, backbone |" in text


def test_a_trial_keeps_its_tables_when_its_runs_are_gone(one_trial, tmp_path, monkeypatch):
    list(run_bench(one_trial.bench))
    test = {"bench": "full_ablation", "row": "lda"}
    claim = {"id": "a", "claim": "LDA is better.", "source": "x", "metrics": ["macro_f1_fg"], "direction": "up"}
    claim["tests"] = [test | {"against": "plain"}, test | {"against": "ridge"}]
    stated = {"worthwhile": {"macro_f1_fg": 0.01}, "hypotheses": [claim]}
    (tmp_path / "hypotheses.yaml").write_text(yaml.safe_dump(stated))
    list(pages.regenerate("full", None, tmp_path, tmp_path, ("report",), ()))
    list(hypotheses.regenerate(tmp_path, tmp_path))
    assert [path.name for path in (tmp_path / "tables" / "against").iterdir()] == ["full_ablation_toy_lite0_ridge.csv"]
    texts = [(tmp_path / name).read_text() for name in ("full.md", "hypotheses.md")]
    assert texts[1].count("| toy, lite0 |") == 2
    empty = one_trial.bench.model_copy(update={"store": str(tmp_path / "empty")})
    gone = Trial(empty, one_trial.data, one_trial.backbone)
    monkeypatch.setattr(running, "trials", lambda name, work, parts=(): iter([gone]))
    told = list(pages.regenerate("full", None, tmp_path, tmp_path, ("report",), ()))
    assert told[0].startswith("kept full_ablation on toy, lite0: ")
    list(hypotheses.regenerate(tmp_path, tmp_path))
    assert [(tmp_path / name).read_text() for name in ("full.md", "hypotheses.md")] == texts
