"""Time and peak memory of one run of each row: `python -m frostbench.benchmarks.results.costs`, a process for each."""

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
    """Of each row of a bench on its first cache, the first setting: its name, seconds, and peak memory in MiB.

    Raises:
        RuntimeError: a run did not end by itself.
    """
    split = {"split": bench.split.model_dump(mode="json")}
    rows = {row.row: row for row in reversed(expand(bench))}
    for name, row in reversed(rows.items()):
        asked = json.dumps({"run": row.specs[0].model_dump(mode="json"), "cache": bench.caches[0]} | split)
        command = [sys.executable, "-m", "frostbench.benchmarks.results.costs"]
        ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"row {name!r} must train in a process of its own, however: {ended.stderr[-500:]}")
        told = json.loads(ended.stdout)
        yield name, told["seconds"], told["mebibytes"]


def main() -> None:
    """Train the run that comes as JSON, and print what it took; the peak is that of the whole process."""
    asked = json.loads(sys.stdin.read())
    run, cache = RunSpec.model_validate(asked["run"]), Path(asked["cache"])
    table = read_table(cache)
    data = table_to_data(table, load_or_make_split(cache, table, SplitSpec.model_validate(asked["split"])))
    start = time.perf_counter()
    for _ in fit([run], data):
        pass
    seconds = time.perf_counter() - start
    # Linux counts in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    sys.stdout.write(json.dumps({"seconds": seconds, "mebibytes": peak}))


if __name__ == "__main__":
    main()
