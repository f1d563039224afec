"""The hypotheses name benches, rows and metrics that exist."""

from pathlib import Path

import pytest
import yaml

from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.results.ablation.running import PAGES
from frostbench.benchmarks.settings.parsing import packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

PAGE = yaml.safe_load((Path(__file__).parents[3] / "docs" / "results" / "hypotheses.yaml").read_text("utf-8"))
HYPOTHESES = {one["id"]: one for one in PAGE["hypotheses"]}


def test_ids_differ():
    assert len(HYPOTHESES) == len(PAGE["hypotheses"]) == 12


@pytest.mark.parametrize("name", HYPOTHESES)
def test_it_can_be_decided(name):
    one = HYPOTHESES[name]
    assert one["claim"].endswith(".")
    assert one["direction"] in ("up", "down", "better")
    assert set(one["metrics"]) <= HIGHER_IS_BETTER.keys() & PAGE["worthwhile"].keys()
    if "not_testable" in one:
        assert "tests" not in one
        return
    assert len({test["bench"] for test in one["tests"]}) == len(one["tests"])
    for test in one["tests"]:
        settings = packaged_bench(test["bench"]) | {"tune": {}}
        rows = {row.row for row in expand(parse(BenchSpec, settings))}
        assert {test["row"], test["against"], *test.get("largest_among", ())} <= rows
        assert test["row"] != test["against"]


def test_every_bench_of_a_hypothesis_is_trained_for_a_page():
    trained = {bench for benches in PAGES.values() for bench in benches}
    assert {test["bench"] for one in HYPOTHESES.values() for test in one.get("tests", ())} <= trained


@pytest.mark.parametrize(("metric", "value"), PAGE["worthwhile"].items())
def test_a_worthwhile_difference_is_an_improvement(metric, value):
    assert (value > 0) == HIGHER_IS_BETTER[metric]
