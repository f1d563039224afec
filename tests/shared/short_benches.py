"""A bench of one row and three epochs."""

from frostbench.benchmarks.settings.plan import BenchSpec

SHORT = {
    "train.schedule.epochs": 3,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 64,
    "train.optim.lr": 0.02,
}


def bench_of(cache, **fields):
    known = {"caches": (str(cache),), "store": str(cache.parent / "runs"), "base": SHORT, "seeds": (0, 1)}
    return BenchSpec(**(known | fields))


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]
