"""`python -m benchmarks.speed NAME [--quick]`: one JSON line for each figure; exit status 1 where a goal is missed."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from benchmarks.speed import app, cache, extract, heads, losses, stream
from benchmarks.speed.harness import Benchmark, run

# Another benchmark is a function in a file of its own, and a line here.
REGISTRY: Mapping[str, Benchmark] = MappingProxyType(
    {
        "app": app.figures,
        "cache": cache.figures,
        "extract": extract.figures,
        "heads": heads.figures,
        "losses": losses.figures,
        "stream": stream.figures,
    }
)


def main(arguments: Sequence[str] | None = None, registry: Mapping[str, Benchmark] = REGISTRY) -> int:
    """Read the command line and run the benchmark that it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("name", choices=sorted(registry))
    parser.add_argument("--quick", action="store_true", help="end within 50 s on 2 cores, with fewer repeats")
    chosen = parser.parse_args(arguments)
    return run(registry, chosen.name, chosen.quick, lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
