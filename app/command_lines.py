"""Shell commands that reproduce the page's runs."""

import math
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from frostbench.app.sides import changes
from frostbench.benchmarks.settings.parsing import Tree, merge, parse, preset, with_changes
from frostbench.training.run import RunSpec

Bench = Mapping[str, Any]


def command_lines(a: Bench, b: Bench) -> str:
    """Return commands that train the runs of both sides, and compare them and export B if only their options differ.

    Args:
        a: one-row bench that side A was trained with.
        b: one-row bench that side B was trained with.
    """
    shared = all(a.get(name) == b.get(name) for name in ("caches", "seeds", "split", "labels"))
    if shared and run_of(a) != run_of(b):
        text = file_command("ab.yaml", both(a, b))
        return (
            f"{text}frostbench bench run ab.yaml\nfrostbench compare ab.yaml\nfrostbench export ab.yaml B --out head\n"
        )
    files = file_command("a.yaml", dict(a)) + file_command("b.yaml", dict(b))
    return f"{files}frostbench bench run a.yaml\nfrostbench bench run b.yaml\n"


def both(a: Bench, b: Bench) -> Tree:
    """Return one bench with A as its base and B's changes as its only toggle."""
    return dict(a) | {"name": "ab", "toggles": {"B": changes(run_of(a), run_of(b))}}


def run_of(bench: Bench) -> RunSpec:
    """Return the run of a one-row bench."""
    start = merge(RunSpec().model_dump(mode="json"), preset(bench["preset"]))
    return parse(RunSpec, with_changes(start, bench["base"]))


def file_command(name: str, tree: Tree) -> str:
    """Return a command that writes settings to a file."""
    lines = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=math.inf)
    return f"cat > {shlex.quote(name)} <<'END'\n{lines}END\n"
