"""A bench of heads with and without a calibration of their own, and an ensemble."""

from frostbench.benchmarks.settings.plan import BenchSpec


def bench_of(folder, cache, **changes):
    base = {"train.schedule": {"epochs": 6, "min_steps": 0, "batch_size": 32}, "train.optim.lr": 0.03}
    base["posthoc.calibration.kind"] = "none"
    toggles = {
        "smooth": {"train.loss.smoothing.epsilon": 0.5},
        "scaled": {"posthoc.calibration.kind": "temperature"},
        "vector": {"posthoc.calibration.kind": "vector"},
    }
    options = {"caches": (str(cache),), "store": str(folder / "s"), "preset": "plain", "base": base, "toggles": toggles}
    return BenchSpec(**options | {"ensembles": {"both": ("plain", "smooth")}, "seeds": (0, 1)} | changes)
