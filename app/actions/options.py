"""The specs that are documented, and the plain-text list of options."""

from pydantic import BaseModel

from frostbench.benchmarks.settings.options import options, shown
from frostbench.benchmarks.settings.parsing import preset_names
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.run import RunSpec

ROOTS: dict[str, type[BaseModel]] = {
    "Runs (`--set`, presets, benches)": RunSpec,
    "Benches (the keys of a bench file)": BenchSpec,
}


def options_text() -> str:
    """Return two lines for every option of a run: path, default and bounds, then title and description."""
    lines = [f"presets: {', '.join(preset_names())}"]
    for option in options(RunSpec):
        lines.append(f"{option.path} = {shown(option.default)}  ({option.bound})")
        lines.append(f"    {option.title}. {' '.join(option.sentence.split())}")
    return "\n".join(lines) + "\n"
