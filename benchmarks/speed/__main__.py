"""`python -m frostbench.benchmarks.speed NAME [--quick]`: print a JSON line per figure; status 1 for a missed goal."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from frostbench.benchmarks.speed import app, bench, cache, extract, heads, losses, memory, reading, stream
from frostbench.benchmarks.speed.harness import Benchmark, Figure, run

# To add a benchmark, write a function in its own file and register it here.
REGISTRY: Mapping[str, Benchmark] = MappingProxyType(
    {
        "app": app.figures,
        "bench": bench.figures,
        "cache": cache.figures,
        "extract": extract.figures,
        "heads": heads.figures,
        "losses": losses.figures,
        "memory": memory.figures,
        "reading": reading.figures,
        "stream": stream.figures,
    }
)

WITH_IMAGES: Mapping[str, Callable[[bool, Path | None], Iterator[Figure]]] = MappingProxyType(
    {"cache": cache.figures, "extract": extract.figures}
)


def main(arguments: Sequence[str] | None = None, registry: Mapping[str, Benchmark] = REGISTRY) -> int:
    """Parse the command line and run the named benchmark."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.speed", description=__doc__)
    parser.add_argument("name", choices=sorted(registry))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer repeats: takes at most 50 s, cache at most two minutes",
    )
    parser.add_argument("--images", type=Path, help="a source of images, as for embed, instead of generated ones")
    chosen = parser.parse_args(arguments)
    if chosen.images is not None:
        if chosen.name not in WITH_IMAGES:
            parser.error(f"--images is only for {' and '.join(WITH_IMAGES)}, not for {chosen.name}")
        measured, images = WITH_IMAGES[chosen.name], chosen.images
        registry = {**registry, chosen.name: lambda quick: measured(quick, images)}
    return run(registry, chosen.name, chosen.quick, lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
