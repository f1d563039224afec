"""Shell commands that train the runs of a setting again and export its head."""

from collections.abc import Sequence
from pathlib import Path

from frostbench.app.command_lines import file_command
from frostbench.app.finding import keys_of
from frostbench.app.sides import changes, preset_spec
from frostbench.app.workbench.runs.naming import nearest
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.settings.parsing import Tree, leaves
from frostbench.embedcache.splits.finding import settings_of_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.training.run import RunSpec


def commands(store: Path, records: Sequence[RunRecord], cache: Path) -> str:
    """Return commands for runs that differ in their seed alone.

    Args:
        store: their run store.
        records: the runs.
        cache: their cache, which stores their split.

    Raises:
        ValueError: the runs are ensembles, the split is not stored in the cache, or the commands would train others.
    """
    if records[0].members:
        raise ValueError("An ensemble is made of other runs. Train and export those, or run its bench.")
    run = RunSpec.model_validate(records[0].full_spec | {"seed": RunSpec().seed})
    start = nearest({path: value for path, value in leaves(records[0].spec).items() if path != "seed"})[0]
    split = changes(SplitSpec(), settings_of_split(cache, records[0].data.split, store))
    bench: Tree = {"name": "again", "caches": [str(cache)], "store": str(store), "preset": start}
    bench |= {"base": changes(preset_spec(start), run), "seeds": [record.seed for record in records]}
    bench |= {"split": split} if split else {}
    if set(keys_of(bench).values()) != {record.key for record in records}:
        raise ValueError(
            "The settings that a run keeps would train other runs: these were trained with other labels, with a "
            "plugin, or on the cache as it was before. Use the bench or the job that trained them."
        )
    return (
        f"{file_command('again.yaml', bench)}frostbench bench run again.yaml\n"
        f"frostbench export again.yaml {start} --out head\n"
    )
