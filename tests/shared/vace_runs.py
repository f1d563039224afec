"""Runs with VACE, and the temperatures they start with."""

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.run import RunSpec


def run_of(**changes):
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    quick = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0, "train.optim.lr": 0.02}
    return parse(
        RunSpec, with_changes(RunSpec().model_dump(mode="json"), quick | {"train.early_stop.metric": "last"} | dotted)
    )


def finished(run, rows):
    (found,) = [event for event in fit([run], rows) if isinstance(event, Finished)]
    return found


def temperatures_of(run, rows):
    (context,) = run_contexts([0], [run], rows)
    return run.train.loss.vace.of_rows(context.rows, context.statistics)
