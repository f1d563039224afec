"""Measure time and peak memory of one run per row, each in its own process."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from frostbench.benchmarks.runs.runner import table_to_data
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import read_table
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec


def costs(bench: BenchSpec) -> Iterator[tuple[str, float, float]]:
    """Yield name, seconds and peak memory in MiB of the first setting of each row, on a bench's first cache.

    Raises:
        RuntimeError: a run failed.
    """
    split = {"split": bench.split.model_dump(mode="json")}
    rows = {row.row: row for row in reversed(expand(bench))}
    for name, row in reversed(rows.items()):
        request = json.dumps({"run": row.specs[0].model_dump(mode="json"), "cache": bench.caches[0]} | split)
        command = [sys.executable, "-m", "frostbench.benchmarks.results.costs"]
        process = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"Row {name!r} failed to train in its own process: {process.stderr[-500:]}")
        result = json.loads(process.stdout)
        yield name, result["seconds"], result["mebibytes"]


def main() -> None:
    """Train the run given as JSON and print its cost; the peak memory is that of the whole process."""
    request = json.loads(sys.stdin.read())
    run, cache = RunSpec.model_validate(request["run"]), Path(request["cache"])
    table = read_table(cache)
    data = table_to_data(table, load_or_make_split(cache, table, SplitSpec.model_validate(request["split"])))
    start = time.perf_counter()
    for _ in fit([run], data):
        pass
    seconds = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    sys.stdout.write(json.dumps({"seconds": seconds, "mebibytes": peak}))


if __name__ == "__main__":
    main()
