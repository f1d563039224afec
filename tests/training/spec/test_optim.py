"""Optimisers, schedules and averages, held against those of torch."""

import math

import pytest
import torch
from catalogue import data

from frostbench.training.engine.ema import Average
from frostbench.training.engine.optimisers import SMALL_HEAD, SeparateOptimisers, StackedOptimiser, optimiser_for
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import first_stage
from frostbench.training.run import RunSpec
from frostbench.training.spec.optim import AdamW, Schedule, Sgd

ADAMS = [AdamW(lr=0.1, weight_decay=0.5), AdamW(lr=0.003, weight_decay=0.0), AdamW(lr=0.02, weight_decay=2.0)]
SGDS = [
    Sgd(lr=0.1, weight_decay=0.5, momentum=0.9),
    Sgd(lr=0.3, weight_decay=0.0, momentum=0.0),
    Sgd(lr=0.02, weight_decay=0.1, momentum=0.99),
]
SHAPES = {"layer.weight": (4, 3), "layer.bias": (4,), "norm.weight": (4,), "centers": (4, 2, 3)}


def theirs(spec, parameters):
    """torch's optimiser for the parameters of one head; only matrices are decayed."""
    decayed = [p for p in parameters.values() if p.ndim > 1]
    rest = [p for p in parameters.values() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": spec.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    if isinstance(spec, AdamW):
        return torch.optim.AdamW(groups, lr=spec.lr)
    return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum)


DECAYED = frozenset({"layer.weight", "centers"})
EITHER = pytest.mark.parametrize("optimiser", [StackedOptimiser, SeparateOptimisers])


def random(*lead, seed):
    generator = torch.Generator().manual_seed(seed)
    return {n: torch.randn(*lead, *s, generator=generator, dtype=torch.float64) for n, s in SHAPES.items()}


@EITHER
@pytest.mark.parametrize("specs", [ADAMS, SGDS], ids=["adamw", "sgd"])
@pytest.mark.parametrize("shape", ["cosine", "constant"])
def test_heads_with_their_own_numbers_move_as_those_of_torch(optimiser, specs, shape):
    first, schedule, steps = random(3, seed=0), Schedule(shape=shape, warmup=0.1), 60
    ours = optimiser({n: p.clone() for n, p in first.items()}, specs, DECAYED)
    alone = [{n: p[k].clone().requires_grad_() for n, p in first.items()} for k in range(3)]
    others = [theirs(spec, parameters) for spec, parameters in zip(specs, alone, strict=True)]
    for step in range(1, steps + 1):
        gradients, factor = random(3, seed=step), schedule.factor(step / steps)
        ours.step(gradients, factor)
        for k, (parameters, other) in enumerate(zip(alone, others, strict=True)):
            for group in other.param_groups:
                group["lr"] = specs[k].lr * factor
            for name, parameter in parameters.items():
                parameter.grad = gradients[name][k].clone()
            other.step()
    assert ours.steps == steps
    for name, found in ours.parameters.items():
        wanted = torch.stack([parameters[name].detach() for parameters in alone])
        assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)
        assert (found - first[name]).abs().max() > 1e-3


@EITHER
@pytest.mark.parametrize("specs", [ADAMS, SGDS], ids=["adamw", "sgd"])
def test_heads_that_are_kept_go_on_as_if_the_others_were_still_there(optimiser, specs):
    whole, fewer = (optimiser(random(3, seed=0), specs, DECAYED) for _ in range(2))
    for step in range(10):
        gradients = random(3, seed=step)
        whole.step(gradients, 0.7)
        if step == 4:
            fewer.keep([2, 0])
        fewer.step(gradients if step < 4 else {n: g[[2, 0]] for n, g in gradients.items()}, 0.7)
    for name, found in fewer.parameters.items():
        assert torch.equal(found, whole.parameters[name][[2, 0]])


@EITHER
@pytest.mark.parametrize("spec", [AdamW(lr=0.1, weight_decay=0.5), Sgd(lr=0.1, weight_decay=0.5)])
def test_what_is_not_named_is_not_decayed(optimiser, spec):
    first = random(1, seed=0)
    ours = optimiser({n: p.clone() for n, p in first.items()}, [spec], DECAYED)
    ours.step({n: torch.zeros_like(p) for n, p in first.items()}, 1.0)
    moved = {name for name, p in ours.parameters.items() if not torch.equal(p, first[name])}
    assert moved == {"layer.weight", "centers"}
    assert torch.allclose(ours.parameters["layer.weight"], first["layer.weight"] * 0.95)


@EITHER
@pytest.mark.parametrize("specs", [ADAMS, SGDS], ids=["adamw", "sgd"])
def test_a_rate_of_0_moves_nothing(optimiser, specs):
    first = random(3, seed=0)
    ours = optimiser({n: p.clone() for n, p in first.items()}, specs, DECAYED)
    for step in range(3):
        ours.step(random(3, seed=step), 0.0)
    assert all(torch.equal(p, first[name]) for name, p in ours.parameters.items())


def test_many_small_heads_move_together_and_large_ones_or_one_alone_apart():
    small, large = {"w": torch.zeros(2, 8, 8)}, {"w": torch.zeros(2, SMALL_HEAD + 1, 1)}
    assert isinstance(optimiser_for(small, ADAMS[:2], frozenset()), StackedOptimiser)
    assert isinstance(optimiser_for({"w": torch.zeros(1, 8, 8)}, ADAMS[:1], frozenset()), SeparateOptimisers)
    assert isinstance(optimiser_for(large, ADAMS[:2], frozenset()), SeparateOptimisers)


def test_averages_are_those_of_torch_swa_utils_with_a_decay_that_starts_small():
    """torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn, whose decay is set anew in every step."""
    from torch.optim.swa_utils import get_ema_multi_avg_fn

    decays = [0.5, 0.9, 0.99]
    parameters = random(3, seed=0)
    ours = Average.of(parameters, decays)
    averages = [[p[k].clone() for p in parameters.values()] for k in range(3)]
    for step in range(1, 40):
        moved = random(3, seed=step)
        ours.step(moved, step)
        for k, decay in enumerate(decays):
            now = min(decay, (1 + step) / (10 + step))
            get_ema_multi_avg_fn(now)(averages[k], [p[k] for p in moved.values()], step)
    for place, name in enumerate(parameters):
        wanted = torch.stack([averages[k][place] for k in range(3)])
        assert torch.allclose(ours.values[name], wanted, rtol=1e-12, atol=1e-12)
    kept = ours.values["layer.bias"][[2, 0]]
    ours.keep([2, 0])
    assert torch.equal(ours.values["layer.bias"], kept)


@pytest.mark.parametrize("specs", [ADAMS, SGDS], ids=["adamw", "sgd"])
def test_every_layer_is_decayed_but_biases_and_norms_are_not(specs):
    """One step at a rate without gradients to speak of: only what is decayed shrinks."""
    tree = {"head": {"body": {"kind": "mlp", "hidden": [8, 6]}}, "train": {"optim": specs[0].model_dump()}}
    stack = first_stage(run_contexts([0], [RunSpec.model_validate(tree)], data())).stack
    before = {n: p.detach().clone() for n, p in stack.optimiser.parameters.items()}
    stack.optimiser.step({n: torch.zeros_like(p) for n, p in before.items()}, 1.0)
    moved = {n for n, p in stack.optimiser.parameters.items() if not torch.equal(p, before[n])}
    assert moved == {"core.body.linears.0.weight", "core.body.linears.1.weight", "core.classifier.weight"}


def test_no_average_is_taken_where_none_is_asked_for():
    assert Average.of(random(2, seed=0), [0.0, 0.0]) is None


def test_the_learning_rate_rises_and_follows_a_cosine():
    schedule = Schedule(warmup=0.1)
    assert [schedule.factor(p) for p in (0.05, 0.1, 0.55, 1.0)] == pytest.approx([0.5, 1, 0.5, 0])
    assert Schedule(warmup=0, shape="constant").factor(0.9) == 1
    assert schedule.factor(0.3) == pytest.approx(0.5 + 0.5 * math.cos(math.pi * 0.2 / 0.9))


@pytest.mark.parametrize(("rows", "epochs"), [(64, 1000), (6400, 50), (640, 100), (641, 91)])
def test_small_tables_are_passed_over_more_often(rows, epochs):
    assert Schedule().epochs_for(rows) == epochs
