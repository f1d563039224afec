"""Exports that are refused before anything is read."""

import pytest

from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec


@pytest.mark.parametrize(
    ("caches", "cache", "told"),
    [
        (("a", "b"), None, r"must be one of \['a', 'b'\], got none\. Choose one with `--cache`\."),
        (("a", "b"), "c", r"must be one of \['a', 'b'\], got 'c'\."),
        (("a",), "c", r"must be one of \['a'\], got 'c'\."),
        ((), None, "A bench needs at least one cache, got none"),
    ],
)
def test_a_cache_must_be_chosen_from_those_of_the_bench(tmp_path, caches, cache, told):
    with pytest.raises(SettingsError, match=told):
        export_row(BenchSpec(caches=caches), "baseline", tmp_path / "out", cache)
