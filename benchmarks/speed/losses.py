"""Cost of a loss: training steps with it compared with cross entropy, alternating in one process.

One MLP head [768, 384] with 200 classes, batches of 1024 rows of 768 numbers; the whole step counts, including the
batch, the optimiser and the state of the loss. The first figure is cross entropy against itself, which shows how much
ratios vary on this machine.
"""

from collections.abc import Iterator
from typing import Any

import torch

from frostbench.benchmarks.speed.harness import Figure, compare
from frostbench.benchmarks.speed.stacks import ROWS, cosine, seeded, settle, table
from frostbench.training.data.part import Data
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import first_stage
from frostbench.training.engine.step_inputs import PerStep
from frostbench.training.run import RunSpec

CLASSES, BATCH, STEPS = 200, 1024, 4
LOSSES: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("cross_entropy", {}, 0.0),
    ("vace", {"vace": {"strength": 0.5}}, 1 / 1.05),
    ("fedlas_ls", {"fedlas": {"alpha": 0.05}}, 1 / 1.15),
    ("fedlas_mbls", {"fedlas": {"alpha": 0.1, "base": "mbls", "beta": 0.5}}, 1 / 1.15),
    ("vace_input_ema", {"vace": {"strength": 0.5, "scatter": "input_ema"}}, 0.0),
    ("vace_own_logit_ema", {"vace": {"strength": 0.5, "scatter": "own_logit_ema"}}, 0.0),
    ("mbls", {"point": {"kind": "mbls"}}, 0.0),
    ("acls", {"point": {"kind": "acls"}}, 0.0),
    ("adafocal", {"point": {"kind": "adafocal"}}, 0.0),
    ("cpc", {"point": {"kind": "cpc"}}, 0.0),
    ("mmce", {"mmce": {"weight": 1.0}}, 0.0),
    ("mdca", {"mdca": {"weight": 1.0}}, 0.0),
    ("crl", {"crl": {"weight": 1.0}}, 0.0),
)
"""Name, options of train.loss, and smallest acceptable ratio."""


def figures(quick: bool, device: str = "cpu") -> Iterator[Figure]:
    """Yield a figure per loss; `quick` measures only those with a goal, and cross entropy."""
    data = table(CLASSES, device)
    repeats = 7 if quick else 21
    plain = Steps({}, data, device)
    for name, options, goal in LOSSES:
        if quick and goal == 0 and options:
            continue
        unit = f"cross entropy's / the loss's seconds, {STEPS} steps, batch {BATCH}, {CLASSES} classes, MLP [768, 384]"
        own = Steps(options, data, device)
        yield compare(f"losses.{name}", own, plain, goal=goal, repeats=repeats, unit=unit)


class Steps:
    """Training steps of one head."""

    def __init__(self, loss: dict[str, Any], data: Data, device: str) -> None:
        tree = {"head": {"body": {"kind": "mlp", "hidden": [768, 384]}}, "train": {"loss": loss}}
        self.stage = first_stage(run_contexts([0], [RunSpec.model_validate(tree)], data))
        self.batches = list(torch.split(torch.randperm(ROWS, generator=seeded()).to(device), BATCH))[:STEPS]
        self.labels = [data.train.labels[rows] for rows in self.batches]

    def __call__(self) -> None:
        """Run the timed steps."""
        for step, (rows, labels) in enumerate(zip(self.batches, self.labels, strict=True)):
            self.stage.stack.step(rows, labels, PerStep(0, step / STEPS), 0.01 * cosine(step, STEPS))
        settle(self.batches[0])
