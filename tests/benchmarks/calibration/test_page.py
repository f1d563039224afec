import numpy as np
import pytest
from pages import Page
from report_checks import check_report

from frostbench.benchmarks.calibration.charts import RiskCurve, class_gaps, risk_coverage_chart
from frostbench.benchmarks.calibration.classes import ClassCalibration
from frostbench.benchmarks.calibration.page import write_calibration_page
from frostbench.benchmarks.calibration.report import calibration
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.fixture(scope="module")
def html(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("page")
    base = {"train.schedule": {"epochs": 4, "min_steps": 0, "batch_size": 32}, "train.optim.lr": 0.03}
    toggles = {
        "<script>alert(1)</script>": {"train.loss.smoothing.epsilon": 0.5},
        "vector": {"posthoc.calibration.kind": "vector"},
    }
    caches = (str(write_cache(folder / "cache")),)
    bench = BenchSpec(caches=caches, store=str(folder / "s"), preset="plain", base=base, toggles=toggles, seeds=(0, 1))
    list(run_bench(bench))
    reports = (*calibration(bench, resamples=40), *calibration(bench, "test", resamples=40))
    return write_calibration_page(reports, folder / "out" / "report.html").read_text("utf-8")


def test_the_page_is_complete_self_contained_and_escaped(html):
    check_report(html)


def test_both_sides_and_every_chart_are_there(html):
    page = Page(html)
    words = " ".join(" ".join(page.words).split())
    for told in (
        "Before temperature scaling",
        "After temperature scaling",
        "As is, with the heads' own calibration",
        "44 rows in 22 groups, seeds 0, 1",
        "Temperatures were fitted to the calibration rows.",
        "Brier: within-bin covariance",
    ):
        assert told in words
    titles = [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"]
    for start, count in (("Reliability of", 6), ("Risk against coverage", 4), ("Gap by class", 8)):
        assert sum(title.startswith(start) for title in titles) == count, start


def test_the_curve_says_its_figures():
    risk = [0.0] * 50 + [0.1] * 30 + [0.2] * 20
    drawn = risk_coverage_chart([RiskCurve("a & b", np.array(risk))], "curves")
    assert "a &amp; b: risk 0.000 at coverage 0.5, 0.100 at 0.8, 0.200 at 1" in drawn
    assert Page(drawn).wrong == []


def test_classes_that_are_never_predicted_are_not_drawn():
    nan = float("nan")
    met = ClassCalibration("ash", 4, 5.0, 0.1, 0.2, -0.1, 0.4)
    drawn = class_gaps([met, ClassCalibration("elm", 4, 0.0, 0.1, nan, nan, nan)], "gaps")
    assert "ash (5)" in drawn
    assert "elm" not in drawn
    assert "is better" not in drawn
