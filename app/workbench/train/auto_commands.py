"""Shell commands for a side whose configuration preset auto chooses."""

import json
import shlex
from collections.abc import Mapping

from frostbench.app.command_lines import file_command
from frostbench.benchmarks.settings.parsing import AUTO, Tree


def commands_with_auto(benches: Mapping[str, Tree]) -> str:
    """Return commands that train the sides, of which at least one lets auto choose.

    >>> print(commands_with_auto({"A": {"caches": ["plants"], "store": "runs", "preset": "auto", "base": {},
    ...                                 "seeds": [0, 1]}}))
    frostbench train plants --preset auto --store runs --seed 0
    frostbench train plants --preset auto --store runs --seed 1
    <BLANKLINE>
    """
    return "".join(_commands(side, bench) for side, bench in benches.items())


def _commands(side: str, bench: Tree) -> str:
    name = f"{side.lower()}.yaml"
    if bench["preset"] != AUTO:
        return f"{file_command(name, bench)}frostbench bench run {name}\n"
    words = ["frostbench", "train", *bench["caches"], "--preset", AUTO, "--store", bench["store"]]
    if "labels" in bench:
        words += ["--labels", bench["labels"]["file"]]
    for option, settings in (("--set", bench["base"]), ("--split", bench.get("split", {}))):
        for path, value in settings.items():
            words += [option, f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
    return "".join(f"{shlex.join([*words, '--seed', str(seed)])}\n" for seed in bench["seeds"])
