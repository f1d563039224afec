import pytest
import torch

from heads.head import HeadSpec
from training.optim import AdamW, Schedule, Sgd


@pytest.mark.parametrize("optim", [AdamW(lr=0.1, weight_decay=0.5), Sgd(lr=0.1, weight_decay=0.5)])
def test_biases_and_norms_are_not_decayed(optim):
    spec = HeadSpec.model_validate({"body": {"kind": "mlp", "hidden": [4]}})
    head = spec.build(torch.randn(6, 3), 2, torch.Generator().manual_seed(0))
    before = {name: p.detach().clone() for name, p in head.named_parameters()}
    optimiser = optim.build(head)
    for parameter in head.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    moved = {name for name, p in head.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"body.linears.0.weight", "classifier.weight"}
    assert torch.allclose(head.classifier.weight, before["classifier.weight"] * 0.95)


def test_the_learning_rate_rises_and_follows_a_cosine():
    schedule = Schedule(warmup=0.1)
    assert [schedule.factor(p) for p in (0.05, 0.1, 0.55, 1.0)] == pytest.approx([0.5, 1, 0.5, 0])
    assert Schedule(warmup=0, shape="constant").factor(0.9) == 1


@pytest.mark.parametrize(("rows", "epochs"), [(64, 1000), (6400, 50), (640, 100), (641, 91)])
def test_small_tables_are_passed_over_more_often(rows, epochs):
    assert Schedule().epochs_for(rows) == epochs
