"""Dividing an extraction among processes, as the command line asks for it."""

from frostbench.embedcache.extraction.distributed import MakeBackbone, RayEngine
from frostbench.embedcache.extraction.extract import Engine
from frostbench.embedcache.extraction.parts import Part, parse_part


def chosen_part(text: str | None, *, update: bool, engine: str) -> Part | None:
    """The part that `--shard` names.

    Raises:
        ValueError: it names none, or comes together with what it cannot be combined with.
    """
    if text is None:
        return None
    part = parse_part(text)
    if update or engine != "local":
        raise ValueError(
            f"--shard is for processes that embed side by side, however: --shard {text} and "
            f"{'--update' if update else f'--engine {engine}'} came. Leave one of them out; an update is made by one "
            "process."
        )
    return part


def chosen_engine(
    name: str, make: MakeBackbone, *, actors: int, device: str, workers: int | None, address: str | None
) -> Engine | None:
    """The engine that `--engine` names; None is this process.

    Raises:
        ValueError: there is no such engine, no actor is asked for, or options of ray come without it.
    """
    if name not in ("local", "ray"):
        raise ValueError(f"--engine is local or ray, however: {name!r} came. Choose one of them.")
    if name == "local" and (actors != 1 or address is not None):
        raise ValueError(
            "--actors and --ray-address belong to --engine ray, however: the engine is local. Add --engine ray, or "
            "leave them out."
        )
    if actors < 1:
        raise ValueError(f"--engine ray needs at least 1 actor, however: --actors {actors} came. Raise it.")
    if name == "local":
        return None
    gpus = 1.0 if device.startswith("cuda") else 0.0
    return RayEngine(make, actors=actors, gpus=gpus, cpus=workers or 1, address=address)
