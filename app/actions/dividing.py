"""The command-line options that divide an extraction among processes."""

from frostbench.embedcache.extraction.distributed import MakeBackbone, RayEngine
from frostbench.embedcache.extraction.extract import Engine
from frostbench.embedcache.extraction.parts import Part, parse_part


def chosen_part(text: str | None, *, update: bool, engine: str) -> Part | None:
    """Return the part given by `--shard`, or None without it.

    Raises:
        ValueError: the text is not a part, or `--shard` is combined with `--update` or another engine.
    """
    if text is None:
        return None
    part = parse_part(text)
    if update or engine != "local":
        raise ValueError(
            f"--shard {text} cannot be combined with {'--update' if update else f'--engine {engine}'}: shards are "
            "for separate local processes, and an update runs in one process. Omit one of the two options."
        )
    return part


def chosen_engine(
    name: str, make: MakeBackbone, *, actors: int, device: str, workers: int | None, address: str | None
) -> Engine | None:
    """Return the engine given by `--engine`, or None for this process.

    Raises:
        ValueError: the engine is unknown, has no actors, or is local but given options of Ray.
    """
    if name not in ("local", "ray"):
        raise ValueError(f"--engine must be local or ray, got {name!r}. Choose one of them.")
    if name == "local" and (actors != 1 or address is not None):
        raise ValueError(
            "--actors and --ray-address need --engine ray, but the engine is local. Add --engine ray, or omit them."
        )
    if actors < 1:
        raise ValueError(f"--engine ray needs at least 1 actor, got --actors {actors}. Increase it.")
    if name == "local":
        return None
    gpus = 1.0 if device.startswith("cuda") else 0.0
    return RayEngine(make, actors=actors, gpus=gpus, cpus=workers or 1, address=address)
