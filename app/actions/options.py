"""Which specs are documented, and the plain listing of options."""

from frostbench.benchmarks.settings.options import options, shown
from frostbench.benchmarks.settings.parsing import preset_names
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.run import RunSpec

ROOTS = {"Runs (`--set`, presets, benches)": RunSpec, "Benches (the keys of a bench file)": BenchSpec}


def listed() -> str:
    """Every option of a run: path, default and bounds; its title and its sentence on a line of their own."""
    lines = [f"presets: {', '.join(preset_names())}"]
    for option in options(RunSpec):
        lines.append(f"{option.path} = {shown(option.default)}  ({option.bound})")
        lines.append(f"    {option.title}. {' '.join(option.sentence.split())}")
    return "\n".join(lines) + "\n"
