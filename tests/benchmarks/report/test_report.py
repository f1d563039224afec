import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from pages import Page
from report_checks import check_report

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.comparison.tables import to_text
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import as_json, read_record, run_folder
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture(scope="module")
def html(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("reported")
    cache = write_cache(folder / "cache")
    base = {
        "train.schedule.epochs": 12,
        "train.schedule.min_steps": 0,
        "train.schedule.batch_size": 32,
        "train.optim.lr": 0.03,
    }
    toggles = {
        "<script>alert(1)</script>": {"posthoc.calibration.kind": "temperature"},
        "untrained": {"train.optim.lr": 1e-9},
        "adjusted": {"train.loss.class_weight.kind": "none", "posthoc.adjustment.tau": 1},
        "solved": {"head.classifier.kind": "logreg"},
    }
    bench = BenchSpec(caches=(str(cache),), store=str(folder / "s"), base=base, toggles=toggles)
    list(run_bench(bench))
    rows = bench_rows(bench)[0].rows
    both = [compare(folder / "s", rows, role=role, title="toy", resamples=200) for role in ("select", "test")]
    return write_report(both, folder / "s", folder / "out" / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_page_is_complete_self_contained_and_escaped(html):
    check_report(html)
    assert html.count("<table") == 6


def test_the_page_says_what_was_compared(page):
    words = " ".join(" ".join(page.words).split())
    assert "44 rows in 22 groups, seeds 0, 1, 2." in words
    assert "train 142 in 71 groups, select 44 in 22 groups, calibrate 30 in 15 groups, test 56 in 28 groups" in words
    assert "44 in this table; 15 runs of the store were evaluated on these rows" in words
    assert "Post-hoc logit adjustment: strength τ (posthoc.adjustment.tau): 0 → 1" in words
    assert "Class weights (train.loss.class_weight.kind): effective → none" in words
    assert "class_weight.beta" not in words
    assert "flips confident predictions" in words
    assert "How to read this" in words


def test_the_best_row_is_chosen_on_validation_rows_for_both(html):
    best = re.findall(r"<h3>By class: (.*) against baseline</h3>", html)
    assert len(best) == 2
    assert best[0] == best[1]


def test_every_chart_is_there(page):
    titles = [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"]
    for start in (
        "Macro F1 against",
        "F1 by class",
        "Training rows",
        "Reliability of",
        "Confusion of",
        "Training loss",
    ):
        assert sum(title.startswith(start) for title in titles) >= 2, start


def test_the_page_follows_the_colour_scheme_and_fits_a_telephone(html):
    assert "@media (prefers-color-scheme: dark)" in html
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html


def test_a_row_alone_is_reported(tmp_path, write_cache):
    cache = write_cache(tmp_path / "cache")
    base = {"head.classifier.kind": "logreg", "head.classifier.tolerance": 1e-3}
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "s"), preset="plain", base=base, seeds=(0,))
    list(run_bench(bench))
    found = compare(tmp_path / "s", bench_rows(bench)[0].rows, resamples=20)
    text = write_report([found], tmp_path / "s", tmp_path / "r.html").read_text("utf-8")
    assert "there is no other row" in text
    assert "Learning curves" not in text


def test_a_run_that_gave_nan_is_reported_without_figures(tmp_path, write_cache):
    cache = write_cache(tmp_path / "cache")
    base = {"train.schedule": {"epochs": 2, "min_steps": 0}}
    toggles = {"broken": {"train.optim.lr": 1e-9}, "adjusted": {"posthoc.adjustment.tau": 0.5}}
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "s"), base=base, toggles=toggles, seeds=(0, 1))
    list(run_bench(bench))
    rows = bench_rows(bench)[0].rows
    outcomes = run_folder(tmp_path / "s", rows["broken"][0]) / "outcomes.parquet"
    names = ["confidence", "confidence_raw", "log_p", "brier"]
    pd.read_parquet(outcomes).assign(**dict.fromkeys(names, math.nan)).to_parquet(outcomes)
    record = read_record(tmp_path / "s", rows["broken"][0])
    (outcomes.parent / "record.json").write_text(as_json(replace(record, digests={})))
    found = compare(tmp_path / "s", rows, resamples=100)
    text = write_report([found], tmp_path / "s", tmp_path / "r.html").read_text("utf-8")
    assert "The figures of &#39;broken&#39; are omitted because seed 0 gave NaN." in text
    assert "By class: adjusted against baseline" in text
    assert not re.search(r"\bnan\b", text)
    assert re.search(r"\nbroken +can't tell\n", to_text(found))


def test_the_page_says_what_is_missing_and_why_there_is_no_verdict(tmp_path, write_cache):
    cache = write_cache(tmp_path / "cache")
    base = {"train.schedule": {"epochs": 12, "min_steps": 0, "batch_size": 32}, "train.optim.lr": 0.03}
    toggles = {"untrained": {"train.optim.lr": 1e-9}}
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "s"), base=base, toggles=toggles, seeds=(0,))
    list(run_bench(bench))
    found = compare(tmp_path / "s", bench_rows(bench)[0].rows, resamples=200)
    told = replace(found, notes=(*found.notes, "Classes missing from test: fir."))
    text = write_report([told], tmp_path / "s", tmp_path / "r.html").read_text("utf-8")
    assert "Classes missing from test: fir." in text
    assert "can&#39;t tell (seeds): the interval excludes 0, but there is only one seed" in text
    assert "can&#39;t tell: “untrained”" in text
    assert "corrected for the number of rows compared on each metric, not\nfor the number of metrics" in text
