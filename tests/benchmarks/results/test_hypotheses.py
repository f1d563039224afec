"""The hypotheses name benches, rows and metrics that exist."""

from pathlib import Path

import pytest
import yaml

from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
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
        assert "bench" not in one
        return
    rows = {row.row for row in expand(parse(BenchSpec, packaged_bench(one["bench"])))}
    assert {one["row"], one["against"], *one.get("largest_among", ())} <= rows
    assert one["row"] != one["against"]


@pytest.mark.parametrize(("metric", "value"), PAGE["worthwhile"].items())
def test_a_worthwhile_difference_is_an_improvement(metric, value):
    assert (value > 0) == HIGHER_IS_BETTER[metric]
