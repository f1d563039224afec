"""A bench whose heads differ in calibration and decisions, to be decided anew from stored logits."""

from pathlib import Path

from short_benches import SHORT

from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.settings.plan import BenchSpec

KINDS = {
    "temperature": {"posthoc.calibration.kind": "temperature"},
    "none": {"posthoc.calibration.kind": "none"},
    "vector": {"posthoc.calibration.kind": "vector"},
    "tuned": {"posthoc.thresholds.kind": "coordinate_ascent"},
    "given": {"posthoc.shift.kind": "given", "posthoc.shift.logits": {"beech": 0.7}},
    "wanted": {"posthoc.shift.kind": "wanted", "posthoc.shift.targets": {"beech": 0.5}},
    "crossfit": {"posthoc.rows": "both"},
}


def decided_runs(cache: Path, store: Path, seeds=(0,), kinds=KINDS) -> dict[str, tuple[str, ...]]:
    """Train one setting per kind and return its run keys by name; `plain` has the default calibration."""
    bench = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, toggles=kinds, seeds=seeds)
    list(run_bench(bench))
    return bench_rows(bench)[0].rows
