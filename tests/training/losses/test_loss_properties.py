"""Properties of every loss and every term of the catalogue, as a training step computes them, on random batches."""

import functools
from dataclasses import dataclass

import pytest
import torch
from catalogue import BASE, CASES, data, is_kind, merged
from hypothesis import given, settings
from hypothesis import strategies as st

from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import first_stage
from frostbench.training.engine.step_inputs import PerHead, PerStep
from frostbench.training.run import RunSpec

ROWS = data(torch.float64)
CLASSES = 4
"""Number of classes with training rows."""
FORMS = {
    "cross entropy": {},
    "consistency": {"consistency": {"weight": 0.7}},
    "ecp over the mean": {"point": {"kind": "ecp", "reduction": "mean"}},
    "mbls over the sum": {"point": {"kind": "mbls", "margin": 1, "reduction": "sum"}},
    "mmce weighted": {"mmce": {"weight": 1, "form": "weighted"}},
    "supcon by class weight": {"supcon": {"weight": 1, "class_weighted": True}},
    "center with repulsion": {"center": {"weight": 0.5, "space": "plain", "repulsion": 1}},
    "fedlas on mbls": {"fedlas": {"alpha": 0.1, "base": "mbls", "margin": 1}},
    "fedlas with a fixed gate": {"fedlas": {"alpha": 0.1, "gate": "plus", "share": "batch_mean"}},
    "vace of inputs": {"vace": {"strength": 0.5, "scatter": "input_ema"}},
    "vace of own logits": {"vace": {"strength": 0.5, "scatter": "own_logit_ema"}},
    "hardmine without a quota": {"hardmine": {"keep": 0.5, "warm": 0, "quota": 0}},
}
"""Further cases: losses that the catalogue of cases does not have as kinds."""
WEIGHTS = ("train.loss.class_weight", "train.loss.weight_schedule")
LOSSES = [
    *(name for name in CASES if name.startswith("train.loss") and is_kind(name) and not name.startswith(WEIGHTS)),
    *FORMS,
]

ORDER_MATTERS = {
    "train.loss.crl": "ranks each row against the next one in the batch",
    "consistency": "takes consecutive rows as views of one image",
}
SHIFT_MATTERS = {
    "train.loss.point=acls": "penalises the size of the largest logit itself",
    "train.loss.point=sigmoid_focal": "is made of sigmoids and not of a softmax",
    "train.loss.lade": "fits the logits to log density ratios",
    "train.loss.fedlas": "has a gate that reads the logits",
    "fedlas on mbls": "has a gate that reads the logits",
    "train.loss.vace": "divides each logit by its own temperature",
    "vace of inputs": "divides each logit by its own temperature",
    "vace of own logits": "divides each logit by its own temperature",
}
"""Losses that lack a property by design, and why."""


@dataclass
class Batch:
    """Vectors [N, D], whose first numbers are the logits, with labels and row indices [N]."""

    x: torch.Tensor
    labels: torch.Tensor
    index: torch.Tensor

    def permuted(self, order):
        return Batch(self.x[order], self.labels[order], self.index[order])


@st.composite
def batches(draw):
    """An even number of rows with any labels, and logits of any scale up to 50."""
    labels = draw(st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=6)) * 2
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    scale = draw(st.sampled_from([0.0, 1e-6, 1.0, 50.0]) | st.floats(0, 50))
    x = scale * (2 * torch.rand(len(labels), 12, generator=generator, dtype=torch.float64) - 1)
    index = torch.randperm(len(ROWS.train), generator=generator)[: len(labels)]
    return Batch(x, torch.tensor(labels), index)


@functools.cache
def objective_of(name):
    """Build the class-weighted objective of a linear head that passes the first numbers of a vector on as logits."""
    loss = FORMS[name] if name in FORMS else CASES[name].train.loss.model_dump()
    weighted = {"train": {"loss": loss | {"class_weight": {"kind": "inverse"}}}}
    run = RunSpec.model_validate(merged(BASE, weighted))
    (objective,) = first_stage(run_contexts([0], [run], ROWS)).stack.objectives
    objective.views = 2
    layer = objective.core.classifier
    layer.weight.data = torch.eye(*layer.weight.shape, dtype=torch.float64)
    return objective.double()


def value_of(name, batch, shift=0.0, weights=1.0):
    objective = objective_of(name)
    statistics = objective.statistics
    layer = objective.core.classifier
    layer.bias.data = torch.full_like(layer.bias, shift)
    draws = objective.draw(batch.x, batch.labels, torch.Generator().manual_seed(0))
    per_head = PerHead({}, weights * statistics.weight, statistics.log_prior_effective)
    return objective(batch.x, batch.labels, batch.index, draws, per_head, PerStep(0, 1.0))[0]


def of(names):
    return pytest.mark.parametrize("name", names)


few = settings(derandomize=True, max_examples=8, deadline=None, database=None)


@of(LOSSES)
@given(batch=batches())
@few
def test_value_and_gradient_are_finite(name, batch):
    batch.x.requires_grad_()
    value = value_of(name, batch)
    (gradient,) = torch.autograd.grad(value, batch.x)
    assert value.isfinite()
    assert gradient.isfinite().all()


@of([name for name in LOSSES if name not in ORDER_MATTERS])
@given(batch=batches(), seed=st.integers(0, 1000))
@few
def test_the_order_of_the_rows_does_not_matter(name, batch, seed):
    order = torch.randperm(len(batch.x), generator=torch.Generator().manual_seed(seed))
    found = value_of(name, batch.permuted(order)).item()
    assert found == pytest.approx(value_of(name, batch).item(), rel=1e-9, abs=1e-9)


@of([name for name in LOSSES if name not in SHIFT_MATTERS])
@given(batch=batches(), shift=st.floats(-50, 50))
@few
def test_a_constant_added_to_all_logits_changes_nothing(name, batch, shift):
    found = value_of(name, batch, shift=shift).item()
    assert found == pytest.approx(value_of(name, batch).item(), rel=1e-9, abs=1e-9)


@of(LOSSES)
@given(batch=batches(), weights=st.floats(1e-3, 1e3))
@few
def test_scaling_all_class_weights_changes_nothing(name, batch, weights):
    found = value_of(name, batch, weights=weights).item()
    assert found == pytest.approx(value_of(name, batch).item(), rel=1e-9, abs=1e-9)


@of(ORDER_MATTERS | SHIFT_MATTERS)
def test_losses_that_lack_a_property_do_lack_it(name):
    generator = torch.Generator().manual_seed(3)
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    batch = Batch(3 * torch.randn(8, 12, generator=generator, dtype=torch.float64), labels, torch.arange(8))
    parts = objective_of(name).parts
    if "crl" in parts:
        parts.crl.rights, parts.crl.visits = torch.rand(2, len(ROWS.train), generator=generator).double()
    other = batch.permuted(torch.tensor([3, 0, 6, 1, 7, 2, 5, 4])) if name in ORDER_MATTERS else batch
    shifts = (-50.0, 50.0) if name in SHIFT_MATTERS else (0.0,)
    changes = [value_of(name, other, shift).item() - value_of(name, batch).item() for shift in shifts]
    assert max(map(abs, changes)) > 1e-6
