"""`python -m frostbench.benchmarks.speed NAME [--quick]`: a JSON line a figure; exit status 1 for a missed goal."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from frostbench.benchmarks.speed import app, cache, extract, heads, losses, memory, reading, stream
from frostbench.benchmarks.speed.harness import Benchmark, Figure, run

# Another benchmark is a function in a file of its own, and a line here.
REGISTRY: Mapping[str, Benchmark] = MappingProxyType(
    {
        "app": app.figures,
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
    """Read the command line and run the benchmark that it names."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.speed", description=__doc__)
    parser.add_argument("name", choices=sorted(registry))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer repeats: ends within 50 s, cache within two minutes",
    )
    parser.add_argument("--images", type=Path, help="a source of images, as for embed, instead of made ones")
    chosen = parser.parse_args(arguments)
    if chosen.images is not None:
        if chosen.name not in WITH_IMAGES:
            parser.error(f"--images belongs to {' and '.join(WITH_IMAGES)}, however: {chosen.name} takes none")
        measured, images = WITH_IMAGES[chosen.name], chosen.images
        registry = {**registry, chosen.name: lambda quick: measured(quick, images)}
    return run(registry, chosen.name, chosen.quick, lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
