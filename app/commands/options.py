"""`frostbench options`."""

from typing import Annotated

import typer

from benchmarks.options import options as all_options
from benchmarks.options import options_markdown, shown
from benchmarks.plan import BenchSpec
from benchmarks.settings import preset_names
from training.run import RunSpec

ROOTS = {"Runs (`--set`, presets, benches)": RunSpec, "Benches (the keys of a bench file)": BenchSpec}


def options(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/options.md.")] = False,
) -> None:
    """List every option of a run, with its default, its bounds and what it does."""
    if markdown:
        print(options_markdown(ROOTS), end="")
        return
    print(f"presets: {', '.join(preset_names())}")
    for option in all_options(RunSpec):
        print(f"{option.path} = {shown(option.default)}  ({option.bound})")
        print(f"    {' '.join(option.sentence.split())}")
