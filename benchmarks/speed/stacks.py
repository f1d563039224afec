"""Many heads trained as one stack, compared with a loop over heads and with heads in a ModuleDict.

All train on the same resident rows in the same batches: 20,000 × 768 random numbers around class means. The loop is
plain PyTorch, one head after the other: rows by index, `F.cross_entropy`, `AdamW(fused=True)` with a cosine schedule.
The ModuleDict follows DINOv2's linear evaluation: every head on the same batch, one backward pass of the summed loss,
one optimiser with a learning rate per head. Heads differ in learning rate, from 1e-4 to 1e-2. Only steps are timed, not
evaluation. Before a case is timed, it is checked once that the stack and the loop train the same heads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from frostbench.benchmarks.speed.harness import Figure, compare
from frostbench.heads.bodies.body import Blocks
from frostbench.heads.head import Head
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import Stage, first_stage
from frostbench.training.engine.step_inputs import PerStep
from frostbench.training.run import RunSpec

ROWS, DIM = 20_000, 768
CHECKED_STEPS = 3
TOLERANCE = 0.01
"""Largest acceptable difference between logits of the stack and the loop, as a share of the head's largest logit.

It covers rounding and the decay of biases and norms, which only the loop applies; together they stay below 0.001.
"""


@dataclass(frozen=True)
class Case:
    """Heads to train.

    Attributes:
        name: name of the figure.
        heads: number of heads.
        classes: number of classes.
        hidden: widths of hidden layers; empty for linear heads.
        batch: rows per step.
        steps: number of timed steps.
        loop_goal: smallest acceptable ratio of the loop's seconds to ours.
        dict_goal: the same for the ModuleDict, or None to omit it.
        dropout: dropout rate of the hidden layers.
    """

    name: str
    heads: int
    classes: int
    hidden: tuple[int, ...]
    batch: int
    steps: int
    loop_goal: float
    dict_goal: float | None = None
    dropout: float = 0.2


CASES = (
    Case("linear", 52, 10, (), 1024, 20, 3.0, 1.5),
    Case("linear_small_batch", 52, 10, (), 64, 100, 3.0, 1.5),
    Case("mlp_768_384", 48, 10, (768, 384), 1024, 4, 0.95),
    Case("mlp_128", 48, 10, (128,), 1024, 8, 1.5),
    Case("mlp_128_small_batch", 48, 10, (128,), 64, 50, 1.5),
    Case("linear_1000_classes", 8, 1000, (), 1024, 8, 0.95),
)


def figures(quick: bool, device: str = "cpu") -> Iterator[Figure]:
    """Yield two figures per case with a `dict_goal`, else one; `quick` runs the first two cases with fewer repeats."""
    for case in CASES[:2] if quick else CASES:
        yield from measure(case, 3 if quick else 5, device)


def measure(case: Case, repeats: int, device: str) -> Iterator[Figure]:
    """Time a case on a device.

    Raises:
        ValueError: the stack and the loop do not train the same heads.
    """
    data = table(case.classes, device)
    order = torch.randperm(ROWS, generator=seeded()).to(device)
    batches = list(torch.split(order, case.batch))[: case.steps]
    while len(batches) < case.steps:
        batches += batches[: case.steps - len(batches)]
    rates = [1e-4 * 100 ** (k / (case.heads - 1)) for k in range(case.heads)]
    check_agreement(case, data, rates, batches)
    ours, loop = Ours(case, data, rates, batches), Loop(case, data, rates, batches)
    description = f"{case.heads} heads, {case.classes} classes, batch {case.batch}"
    unit = f"loop seconds / our seconds, {description}"
    yield compare(f"stack.{case.name}.loop", ours, loop, goal=case.loop_goal, repeats=repeats, unit=unit)
    if case.dict_goal is not None:
        peer = Dict(case, data, rates, batches)
        unit = f"ModuleDict seconds / our seconds, {description}"
        yield compare(f"stack.{case.name}.module_dict", ours, peer, goal=case.dict_goal, repeats=repeats, unit=unit)


def check_agreement(case: Case, data: Data, rates: Sequence[float], batches: Sequence[Tensor]) -> None:
    """Check that the stack and the loop train the same heads, from the same weights and without dropout.

    Raises:
        ValueError: the logits of a head differ by more than `TOLERANCE` after a few steps.
    """
    case, batches = replace(case, dropout=0.0), batches[:CHECKED_STEPS]
    ours, loop = Ours(case, data, rates, batches), Loop(case, data, rates, batches)
    start = [context.head for context in ours.stage.contexts]
    loop.start_from(start)
    ours()
    loop()
    with torch.no_grad():
        x = start[0].preprocess(data.select.columns["x"])
        wanted = torch.stack([module(x) for module in loop.heads])
    gaps = (ours.stage.stack.logits(case.classes) - wanted).abs().amax((1, 2)) / wanted.abs().amax((1, 2))
    worst = int(gaps.argmax())
    if not gaps[worst] <= TOLERANCE:
        raise ValueError(
            f"A stack must train the same heads as a loop over them, but after {len(batches)} steps of case "
            f"{case.name!r} the logits of head {worst} (learning rate {rates[worst]:.2g}) differ by "
            f"{float(gaps[worst]):.2g} of the largest, more than {TOLERANCE:g}. Find out which of them is wrong."
        )


def table(classes: int, device: str) -> Data:
    """Return rows around class means, with few validation and calibration rows, as these are not timed."""
    draw = seeded()
    means = torch.randn(classes, DIM, generator=draw)

    def part(rows: int) -> Part:
        labels = torch.cat([torch.arange(classes), torch.randint(classes, (rows - classes,), generator=draw)])
        x = 0.2 * means[labels] + torch.randn(rows, DIM, generator=draw)
        return Part({"x": x.to(device)}, labels.to(device))

    names = tuple(str(c) for c in range(classes))
    return Data(part(ROWS), part(classes), part(classes), names)


def seeded() -> torch.Generator:
    """Return the benchmark's random generator."""
    return torch.Generator().manual_seed(0)


class Ours:
    """The stack; each call runs the timed steps."""

    def __init__(self, case: Case, data: Data, rates: Sequence[float], batches: Sequence[Tensor]) -> None:
        mlp = {"kind": "mlp", "hidden": case.hidden, "dropout": case.dropout}
        body = mlp if case.hidden else {"kind": "identity"}
        runs = [
            RunSpec.model_validate({"head": {"body": body}, "train": {"optim": {"kind": "adamw", "lr": lr}}})
            for lr in rates
        ]
        self.stage: Stage = first_stage(run_contexts(range(len(runs)), runs, data))
        self.batches = batches
        self.labels = [data.train.labels[rows] for rows in batches]

    def __call__(self) -> None:
        """Run the steps."""
        for step, (rows, labels) in enumerate(zip(self.batches, self.labels, strict=True)):
            self.stage.stack.step(rows, labels, PerStep(0, step / len(self.batches)), cosine(step, len(self.batches)))
        settle(self.batches[0])


class Loop:
    """Heads one after the other; each call runs the timed steps."""

    def __init__(self, case: Case, data: Data, rates: Sequence[float], batches: Sequence[Tensor]) -> None:
        self.x, self.y, self.batches, self.rates = data.train.columns["x"], data.train.labels, batches, rates
        self.heads = [head(case).to(self.x.device) for _ in rates]
        pairs = zip(self.heads, rates, strict=True)
        self.optimisers = [torch.optim.AdamW(h.parameters(), lr=lr, weight_decay=0.01, fused=True) for h, lr in pairs]

    @torch.no_grad()
    def start_from(self, heads: Sequence[Head]) -> None:
        """Copy the weights of these heads, and preprocess the rows as they do."""
        self.x = heads[0].preprocess(self.x)
        for module, source in zip(self.heads, heads, strict=True):
            blocks = zip(source.body.linears, source.body.norms, strict=True) if isinstance(source.body, Blocks) else ()
            layers = [*(layer for block in blocks for layer in block), source.classifier]
            own = [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.LayerNorm)]
            for layer, other in zip(own, layers, strict=True):
                layer.load_state_dict(other.state_dict())

    def __call__(self) -> None:
        """Run the steps."""
        for module, optimiser, rate in zip(self.heads, self.optimisers, self.rates, strict=True):
            for step, rows in enumerate(self.batches):
                optimiser.param_groups[0]["lr"] = rate * cosine(step, len(self.batches))
                loss = cross_entropy(module(self.x[rows]), self.y[rows])
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                optimiser.step()
        settle(self.batches[0])


class Dict:
    """Heads side by side on each batch; each call runs the timed steps."""

    def __init__(self, case: Case, data: Data, rates: Sequence[float], batches: Sequence[Tensor]) -> None:
        self.x, self.y, self.batches, self.rates = data.train.columns["x"], data.train.labels, batches, rates
        self.heads = nn.ModuleDict({f"head_{k}": head(case) for k in range(len(rates))}).to(self.x.device)
        pairs = zip(self.heads.values(), rates, strict=True)
        groups = [{"params": list(h.parameters()), "lr": lr} for h, lr in pairs]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=True)

    def __call__(self) -> None:
        """Run the steps."""
        for step, rows in enumerate(self.batches):
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * cosine(step, len(self.batches))
            x, y = self.x[rows], self.y[rows]
            losses = {name: cross_entropy(module(x), y) for name, module in self.heads.items()}
            self.optimiser.zero_grad()
            torch.autograd.backward(torch.stack(list(losses.values())).sum())
            self.optimiser.step()
        settle(self.batches[0])


def head(case: Case) -> nn.Module:
    """Return a head in plain PyTorch."""
    layers: list[nn.Module] = []
    width = DIM
    for hidden in case.hidden:
        layers += [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(case.dropout)]
        width = hidden
    return nn.Sequential(*layers, nn.Linear(width, case.classes))


def cosine(step: int, steps: int) -> float:
    """Return the factor of the learning rate."""
    return 0.5 * (1 + math.cos(math.pi * step / steps))


def settle(like: Tensor) -> None:
    """Wait for the device."""
    if like.is_cuda:
        torch.cuda.synchronize(like.device)
