"""VACE in runs: class temperatures of trained heads, and its controls."""

import pytest
import torch
from catalogue import data, trained
from torch.nn.functional import cross_entropy
from vace_runs import finished, run_of, temperatures_of

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.heads.head import fold_temperatures
from frostbench.training.data.train_rows import train_rows
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.losses.vace import Vace
from frostbench.training.run import RunSpec


def test_temperatures_are_folded_into_a_linear_layer():
    run = run_of()
    (context,) = run_contexts([0], [run], data(torch.float32))
    layer = torch.nn.Linear(2, 3)
    layer.weight.data = torch.tensor([[1.0, 2], [0, -1], [3, 0.5]])
    layer.bias.data = torch.tensor([0.1, 0.2, -0.3])
    context.head.classifier = layer
    fold_temperatures(context.head, torch.tensor([0.5, 1, 2]))
    assert torch.allclose(layer.weight, torch.tensor([[2.0, 4], [0, -1], [1.5, 0.25]]))
    assert torch.allclose(layer.bias, torch.tensor([0.2, 0.2, -0.15]))
    assert torch.allclose(layer(torch.tensor([1.0, -1])), torch.tensor([-1.8, 1.2, 1.1]))
    assert context.head.tau is None


def test_scatter_is_that_of_cached_vectors_whatever_is_standardised():
    rows = data(torch.float32)
    plain = temperatures_of(run_of(train__loss__vace__strength=0.5), rows)
    both = {"head__preprocess__center": True, "head__preprocess__std": True}
    assert torch.allclose(temperatures_of(run_of(train__loss__vace__strength=0.5, **both), rows), plain, rtol=1e-5)
    x, labels = rows.train.columns["x"].double(), rows.train.labels
    known = [x[labels == c].var(0).mean() for c in range(3)]
    mean = sum(known) / 3
    assert plain.tolist() == pytest.approx([1 + 0.5 * float(k / mean) for k in known] + [1.5], rel=1e-6)


def test_rows_that_were_made_up_have_no_part_in_scatter():
    rows, changes = data(torch.float32), {"train__loss__vace__strength": 0.5}
    made_up = temperatures_of(run_of(train__oversample__kind="gaussian", **changes), rows)
    assert torch.equal(made_up, temperatures_of(run_of(**changes), rows))


def test_frequency_takes_class_sizes_for_scatter():
    found = temperatures_of(run_of(train__loss__vace__strength=0.5, train__loss__vace__scatter="frequency"), data())
    assert found.tolist() == pytest.approx([min(2.0, 1 + 0.5 * n / 17.75) for n in (40, 20, 10, 1)])


@pytest.mark.parametrize("classifier", ["linear", "cosine", "arcface"])
def test_a_trained_head_predicts_with_its_temperatures(classifier):
    rows = data(torch.float64)
    run = run_of(head__classifier__kind=classifier, train__loss__vace__strength=0.5, train__schedule__epochs=1)
    temperatures = torch.ones(5, dtype=torch.float64)
    temperatures[:4] = temperatures_of(run, rows)
    head = finished(run, rows).head.head
    assert (head.tau is None) == (classifier == "linear")
    if classifier != "linear":
        assert torch.allclose(head.tau.double(), temperatures)
        undivided = head.classifier(head.hidden(rows.select.columns["x"].float()))
        assert torch.allclose(head(rows.select.columns["x"].float()), undivided / temperatures.float())


def test_a_step_is_that_of_cross_entropy_on_divided_logits():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    changes = {"train__schedule__epochs": 1, "train__schedule__batch_size": 75, "train__schedule__warmup": 0}
    tree = with_changes(run_of(**changes).model_dump(mode="json"), {"train.optim": {"kind": "sgd", "lr": 0.1}})
    run = parse(RunSpec, with_changes(tree, {"train.loss.vace.strength": 0.5}))
    (context,) = run_contexts([0], [run], rows)
    weight, bias = (p.detach().double().clone().requires_grad_() for p in context.head.classifier.parameters())
    temperatures = temperatures_of(run, rows)
    x, y = train_rows(run, rows).x, rows.train.labels
    gradients = torch.autograd.grad(cross_entropy((x @ weight.T + bias) / temperatures, y), (weight, bias))
    factor = run.train.schedule.factor(0.5)
    moved = [(p - 0.1 * factor * g).detach() for p, g in zip((weight, bias), gradients, strict=True)]
    found = finished(run, rows).head.head.classifier
    assert torch.allclose(found.weight.double(), moved[0] / temperatures[:, None], atol=1e-6)
    assert torch.allclose(found.bias.double(), moved[1] / temperatures, atol=1e-6)


def test_logistic_regression_ends_at_the_optimum_of_the_penalty_by_class():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    run = run_of(head__classifier__kind="logreg", head__classifier__tolerance=1e-9, train__loss__vace__strength=0.5)
    layer = finished(run, rows).head.head.classifier
    temperatures = temperatures_of(run, rows)
    weight, bias = layer.weight.detach().double().requires_grad_(), layer.bias.detach().double()
    x, y = train_rows(run, rows).x, rows.train.labels
    penalty = (temperatures[:, None].square() * weight.square()).sum() / (2 * len(x))
    (gradient,) = torch.autograd.grad(cross_entropy(x @ weight.T + bias, y) + penalty, weight)
    assert gradient.abs().max() < 1e-6


@pytest.mark.parametrize("scatter", ["input_ema", "penultimate_ema"])
def test_a_running_scatter_over_whole_batches_is_the_exact_one(scatter):
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    changes = {"train__loss__vace__strength": 0.5, "train__schedule__batch_size": 75}
    exact = finished(run_of(**changes), rows).head
    running = finished(run_of(train__loss__vace__scatter=scatter, train__loss__vace__rate=1.0, **changes), rows).head
    columns = rows.select.columns
    assert torch.allclose(running.logits(columns), exact.logits(columns), atol=1e-5)


def test_own_logits_scatter_as_the_classifier_spreads_them():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    changes = {"train__loss__vace__scatter": "own_logit_ema", "train__loss__vace__rate": 1.0, "train__optim__lr": 1e-9}
    run = run_of(
        train__loss__vace__strength=0.5, train__schedule__batch_size=75, head__classifier__kind="cosine", **changes
    )
    head = finished(run, rows).head.head
    x, y = rows.train.columns["x"].float(), rows.train.labels
    own = head.classifier(head.hidden(x)).gather(1, y[:, None])[:, 0]
    variance = torch.stack([own[y == c].var() for c in range(4)]).double()
    wanted = Vace(strength=0.5).temperatures(variance, torch.tensor([40, 20, 10, 5]))
    assert head.tau[:4].tolist() == pytest.approx(wanted.tolist(), rel=1e-4)


def test_the_kept_epoch_has_the_temperatures_it_was_judged_with():
    rows = data(torch.float32)
    changes = {"train__loss__vace__strength": 0.8, "train__loss__vace__scatter": "own_logit_ema"}
    cosine = {"head__classifier__kind": "cosine", "train__schedule__epochs": 12, "train__optim__lr": 0.3}
    run = run_of(train__early_stop__metric="nll", **changes, **cosine)
    best = finished(run, rows)
    assert 0 < best.epoch < 12
    again = replace_epoch(run, best.epoch)
    assert torch.equal(finished(again, rows).head.head.tau, best.head.head.tau)


def replace_epoch(run, epoch):
    return parse(RunSpec, with_changes(run.model_dump(mode="json"), {"train.early_stop.epoch": epoch}))


def test_as_a_control_it_multiplies_the_decay_of_each_row():
    rows = data(torch.float64, counts=(40, 20, 10, 5))
    tree = {"train.optim": {"kind": "sgd", "lr": 0.1, "weight_decay": 0.5}, "train.schedule.batch_size": 75}
    base = with_changes(run_of(train__schedule__epochs=1, train__schedule__warmup=0).model_dump(mode="json"), tree)
    run = parse(RunSpec, with_changes(base, {"train.loss.vace.strength": 0.5, "train.loss.vace.acts_on": "decay"}))
    (context,) = run_contexts([0], [run], rows)
    weight = context.head.classifier.weight.detach().double().clone().requires_grad_()
    bias, temperatures = context.head.classifier.bias.detach().double(), temperatures_of(run, rows)
    x, y = train_rows(run, rows).x, rows.train.labels
    (gradient,) = torch.autograd.grad(cross_entropy(x @ weight.T + bias, y), weight)
    step = 0.1 * run.train.schedule.factor(0.5)
    wanted = weight - step * (gradient + 0.5 * temperatures.square()[:, None] * weight)
    assert torch.allclose(finished(run, rows).head.head.classifier.weight.double(), wanted, atol=1e-6)


def test_controls_of_a_stack_each_have_their_own_decay():
    rows = data(torch.float64)
    runs = [run_of(train__loss__vace__strength=s, train__loss__vace__acts_on="decay") for s in (0.2, 0.9)]
    together, apart = trained(runs, rows), [finished(run, rows) for run in runs]
    for one, other in zip(together, apart, strict=True):
        assert torch.allclose(one.head.logits(rows.select.columns), other.head.logits(rows.select.columns), atol=1e-6)
    first, second = (event.head.logits(rows.select.columns)[:, :4] for event in apart)
    assert not torch.allclose(first, second, atol=1e-4)


def test_running_temperatures_are_logged():
    rows = data(torch.float32)
    run = run_of(train__loss__vace__strength=0.5, train__loss__vace__scatter="input_ema")
    epochs = [event for event in fit([run], rows) if hasattr(event, "best_epoch")]
    assert {tuple(event.logs) for event in epochs} == {("tau_least", "tau_mean", "tau_most")}
    assert all(0.5 <= e.logs["tau_least"] <= e.logs["tau_mean"] <= e.logs["tau_most"] <= 2 for e in epochs)


def test_logged_temperatures_are_those_of_classes_with_rows():
    run = run_of(train__loss__vace={"strength": 0.5, "scatter": "input_ema", "base": 1.4})
    epochs = [event for event in fit([run], data(torch.float32)) if hasattr(event, "best_epoch")]
    assert all(event.logs["tau_least"] > 1.4 for event in epochs)
