"""A head that ends, fails or is cancelled does not affect the others of its stack; parameter averages."""

import pytest
import torch
from catalogue import BASE, MLP, data, merged

from frostbench.heads.bodies.dense import Dense, linear_layer
from frostbench.heads.spec import with_numbers
from frostbench.training.engine.events import Epoch, Failed, Finished, Started
from frostbench.training.engine.fit import fit, never
from frostbench.training.engine.grouping import grouped
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stage_loop import StageFinished, run_stage
from frostbench.training.engine.stages import first_stage
from frostbench.training.metrics.classification import preference
from frostbench.training.run import RunSpec

LONG = {"train": {"schedule": {"epochs": 12}, "optim": {"lr": 0.1}}}
ROWS = data()


def run(*trees, **changes):
    return RunSpec.model_validate(merged(BASE, LONG, {"order_seed": 3}, *trees, changes))


def events_of(runs, stop=never, rows=ROWS):
    assert grouped(runs, rows) == [list(range(len(runs)))]
    return list(fit(runs, rows, stop))


def of(events, index, kind):
    return [event for event in events if event.run == index and isinstance(event, kind)]


def assert_as_alone(events, index, spec, rows=ROWS, rtol=1e-9):
    """Check that the epochs and head of a run equal those of the run alone."""
    alone = list(fit([spec], rows))
    ours, theirs = of(events, index, Epoch), of(alone, 0, Epoch)
    assert [e.epoch for e in ours] == [e.epoch for e in theirs]
    assert [e.loss for e in ours] == pytest.approx([e.loss for e in theirs], rel=rtol)
    assert [e.best_epoch for e in ours] == [e.best_epoch for e in theirs]
    (end,), (wanted,) = of(events, index, Finished), of(alone, 0, Finished)
    assert (end.reason, end.epoch) == (wanted.reason, wanted.epoch)
    found, state = end.head.head.state_dict(), wanted.head.head.state_dict()
    assert all(torch.allclose(found[name], state[name], rtol=max(rtol, 1e-6), atol=max(rtol, 1e-7)) for name in state)


@pytest.mark.parametrize("body", [{}, MLP], ids=["linear", "mlp"])
@pytest.mark.parametrize("second", [{}, {"second": {"kind": "crt", "init": "keep", "epochs": 2}}], ids=["one", "two"])
def test_heads_that_stop_early_leave_the_others_as_they_are(body, second):
    stops = [{"metric": "nll", "patience": 1}, {"metric": "last"}, {"metric": "accuracy", "patience": 2}]
    lrs = [0.5, 0.05, 0.3]
    runs = [
        run(body, second, {"train": {"early_stop": stop, "optim": {"lr": lr}}}, seed=seed)
        for seed, (stop, lr) in enumerate(zip(stops, lrs, strict=True))
    ]
    events = events_of(runs)
    lengths = [len(of(events, index, Epoch)) for index in range(3)]
    assert len(set(lengths)) > 1
    for index, spec in enumerate(runs):
        assert_as_alone(events, index, spec)


def test_every_metric_chooses_within_one_stack():
    names = ["macro_f1_fg", "balanced_accuracy", "accuracy", "recall_few", "nll", "last"]
    runs = [run({"train": {"early_stop": {"metric": name, "patience": 3}}}) for name in names]
    events = events_of(runs)
    for index, name in enumerate(names):
        epochs, (end,) = of(events, index, Epoch), of(events, index, Finished)
        values = [(e.epoch, 0) if name == "last" else preference(e.metrics, name) for e in epochs]
        assert end.epoch == epochs[values.index(max(values))].epoch
    assert_as_alone(events, 4, runs[4])


@pytest.mark.parametrize("body", [{}, MLP], ids=["linear", "mlp"])
def test_a_head_that_diverges_ends_there_and_the_others_equal_their_loop(body):
    """Its weights grow by a factor of a thousand in each step."""
    sgd = {"train": {"optim": {"kind": "sgd", "momentum": 0.1}, "schedule": {"warmup": 0}}}
    numbers = [(0.1, 0.01), (100.0, 10.0), (0.05, 0.01)]
    flat = {"train": {"schedule": {"shape": "constant"}}}
    runs = [run(body, sgd, flat, {"train": {"optim": {"lr": r, "weight_decay": d}}}) for r, d in numbers]
    single = data(torch.float32)
    events = events_of(runs, rows=single)
    (end,) = of(events, 1, Finished)
    assert end.reason == "diverged"
    assert len(of(events, 1, Epoch)) < 12
    assert end.head.logits(single.select.columns)[:, :4].isfinite().all()
    for index in (0, 2):
        assert len(of(events, index, Epoch)) == 12
        assert_as_alone(events, index, runs[index], single, 1e-4)


@pytest.mark.parametrize("metric", ["last", "nll", "accuracy"])
def test_a_head_that_overflows_in_the_last_step_of_an_epoch_is_not_kept(metric):
    """The loss is computed before each step, so that of the only step is finite, but its result is not."""
    rows = data(torch.float32)
    step = {"optim": {"kind": "sgd", "lr": 100.0}, "schedule": {"epochs": 1, "batch_size": 100, "warmup": 0}}
    flat = {"train": step | {"early_stop": {"metric": metric}}}
    flat["train"]["schedule"]["shape"] = "constant"
    steep = with_numbers(run(flat), {"train.optim.lr": 1e39})
    (failed,) = of(events_of([steep], rows=rows), 0, (Failed, Finished))
    assert isinstance(failed, Failed)
    assert "it diverged in epoch 1" in failed.message


def test_a_head_without_a_finite_epoch_fails_with_its_own_rate():
    """One step at the high rate overflows, but steps at the low rate do not."""
    sgd = {"train": {"optim": {"kind": "sgd", "lr": 0.1}, "schedule": {"warmup": 0}}}
    runs = [run(sgd), with_numbers(run(sgd), {"train.optim.lr": 1e308}), run(sgd, seed=1)]
    events = events_of(runs)
    (failed,) = of(events, 1, Failed)
    assert "it diverged in epoch 1" in failed.message
    assert "Lower train.optim.lr, now 1e+308." in failed.message
    assert not of(events, 1, (Epoch, Finished))
    for index in (0, 2):
        (end,) = of(events, index, Finished)
        assert end.reason == "all_epochs"
        assert_as_alone(events, index, runs[index])


def test_a_cancel_stops_the_heads_that_are_left_and_keeps_those_that_had_ended():
    runs = [
        run({"train": {"early_stop": {"metric": "recall_few", "patience": 2}, "optim": {"lr": 1e-12}}}),
        run(seed=1),
        run({"train": {"loss": {"class_weight": {"kind": "inverse"}}}}, seed=2),
    ]
    calls = []

    def stop():
        calls.append(1)
        return len(calls) == 6

    events = events_of(runs, stop)
    ends = {event.run: event for event in events if isinstance(event, Finished)}
    assert {index: end.reason for index, end in ends.items()} == {0: "early_stop", 1: "stopped", 2: "stopped"}
    assert max(e.epoch for e in of(events, 1, Epoch)) == 6
    assert [e.run for e in events if isinstance(e, Started)] == [0, 1, 2]
    assert_as_alone(events, 0, runs[0])
    for index in (1, 2):
        full = of(list(fit([runs[index]], ROWS)), 0, Epoch)[:6]
        assert [e.loss for e in of(events, index, Epoch)] == pytest.approx([e.loss for e in full], rel=1e-9)


def test_averages_are_the_formula_over_the_parameters_of_every_step(monkeypatch):
    """After step n: d times the last average plus 1 - d times the parameters, d = min(decay, (1 + n) / (10 + n))."""
    decays = [0.5, 0.95]
    runs = [run({"train": {"ema": decay, "schedule": {"epochs": 4}}}, seed=k) for k, decay in enumerate(decays)]
    stage = first_stage(run_contexts([0, 1], runs, ROWS))
    wanted = {name: p.detach().clone() for name, p in stage.stack.optimiser.parameters.items()}
    real = stage.stack.optimiser.step

    def step(gradients, factor):
        real(gradients, factor)
        n = stage.stack.optimiser.steps
        for name, p in stage.stack.optimiser.parameters.items():
            for k, decay in enumerate(decays):
                d = min(decay, (1 + n) / (10 + n))
                wanted[name][k] = d * wanted[name][k] + (1 - d) * p[k].detach()

    monkeypatch.setattr(stage.stack.optimiser, "step", step)
    ends = [event for event in run_stage(stage, [0, 0], never) if isinstance(event, StageFinished)]
    for k, end in enumerate(ends):
        for name, found in end.core.named_parameters():
            assert torch.allclose(found, wanted[f"core.{name}"][k], rtol=1e-12, atol=1e-12)
    assert stage.stack.optimiser.steps == 4 * 3


@pytest.mark.parametrize("shared", [True, False])
def test_a_wide_layer_equals_plain_ones_with_its_gradients(shared):
    generator = torch.Generator().manual_seed(0)
    layers = [linear_layer(7, 4, generator).double() for _ in range(3)]
    x = torch.randn(*([] if shared else [3]), 9, 7, dtype=torch.float64, generator=generator)
    tensors = {
        n: torch.stack([dict(layer.named_parameters())[n].detach() for layer in layers]) for n in ("weight", "bias")
    }
    template = Dense(7, 4, dtype=torch.float64)
    template.wide = True

    def value(parameters, rows):
        return torch.func.functional_call(template, parameters, (rows,)).sin().sum()

    lifted = torch.func.vmap(torch.func.grad_and_value(value, argnums=(0, 1)), in_dims=(0, None if shared else 0))
    (gradients, in_x), found = lifted(tensors, x)
    for k, layer in enumerate(layers):
        rows = (x if shared else x[k]).clone().requires_grad_()
        wanted = torch.nn.functional.linear(rows, layer.weight, layer.bias).sin().sum()
        wanted.backward()
        assert found[k].item() == pytest.approx(wanted.item(), rel=1e-12)
        assert torch.allclose(gradients["weight"][k], layer.weight.grad, rtol=1e-12, atol=1e-12)
        assert torch.allclose(gradients["bias"][k], layer.bias.grad, rtol=1e-12, atol=1e-12)
        assert torch.allclose(in_x[k], rows.grad, rtol=1e-12, atol=1e-12)


def test_heads_of_one_seed_that_mix_by_other_shares_draw_for_themselves():
    runs = [run(MLP, {"train": {"mixup": {"alpha": alpha}}}) for alpha in (0.2, 2.0, 0.2)]
    events = events_of(runs)
    for index, spec in enumerate(runs):
        assert_as_alone(events, index, spec)
