"""FeDLaS in runs: logs, controls, statistics and stacks."""

import pytest
import torch
from catalogue import data, trained

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.training.data.train_rows import train_rows
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import first_stage
from frostbench.training.run import RunSpec


def run_of(**fedlas):
    tree = with_changes(
        RunSpec().model_dump(mode="json"),
        {
            "head.body": {"kind": "mlp", "hidden": [8]},
            "train.schedule.epochs": 4,
            "train.schedule.min_steps": 0,
            "train.early_stop.metric": "last",
        },
    )
    return parse(RunSpec, with_changes(tree, {f"train.loss.fedlas.{name}": value for name, value in fedlas.items()}))


def finished(run, rows):
    (found,) = [event for event in fit([run], rows) if isinstance(event, Finished)]
    return found.head.logits(rows.select.columns)


def test_a_run_without_beta_is_one_with_label_smoothing():
    rows = data(torch.float32)
    smoothed = parse(RunSpec, with_changes(run_of().model_dump(mode="json"), {"train.loss.smoothing.epsilon": 0.1}))
    found = finished(run_of(alpha=0.1, beta=0, gate="plus"), rows)
    assert torch.allclose(found[:, :4], finished(smoothed, rows)[:, :4], atol=1e-5)
    assert not torch.allclose(finished(run_of(alpha=0.1, gate="plus"), rows)[:, :4], found[:, :4], atol=1e-3)


def test_what_is_logged_and_that_controls_keep_their_sign():
    rows = data(torch.float32)
    logs = {gate: [e.logs for e in fit([run_of(alpha=0.1, gate=gate)], rows) if isinstance(e, Epoch)] for gate in GATES}
    assert [e["gate_positive"] for e in logs["plus"]] == [1.0] * 4
    assert [e["gate_positive"] for e in logs["minus"]] == [0.0] * 4
    assert all(e["gate_flipped"] == 0 for e in logs["plus"] + logs["minus"])
    assert 0.2 < logs["random"][-1]["gate_flipped"] < 0.8
    assert all(0 < e["gate_share"] < 2 and 0 <= e["gate_greedy"] <= 1 for every in logs.values() for e in every)


GATES = ("learned", "plus", "minus", "random")


def test_norms_are_those_of_cached_vectors_in_units_whatever_is_standardised():
    rows = data(torch.float64)
    plain = run_of(alpha=0.1, source="input", statistics="exact", gate="plus")
    tree = plain.model_dump(mode="json")
    (context,) = run_contexts([0], [parse(RunSpec, with_changes(tree, {"head.preprocess.std": True}))], rows)
    objective = first_stage([context]).stack.objectives[0]
    norms = train_rows(plain, rows).x.abs().sum(1)
    assert objective.parts.fedlas.norms.tolist() == pytest.approx([float(norms.mean()), float(norms.std())], rel=1e-9)


def test_a_gate_learns_at_a_rate_of_its_own():
    rows = data(torch.float32)
    shares = [
        [e.logs["gate_greedy"] for e in fit([run_of(alpha=0.1, gate_rate=rate)], rows) if isinstance(e, Epoch)]
        for rate in (1e-6, 30.0)
    ]
    assert shares[1][-1] > shares[0][-1] + 0.1


def test_heads_of_one_stack_have_gates_and_rates_of_their_own():
    rows = data(torch.float64)
    runs = [run_of(alpha=a, gate_rate=3.0) for a in (0.05, 0.2)]
    together = trained(runs, rows)
    for one, run in zip(together, runs, strict=True):
        assert torch.allclose(one.head.logits(rows.select.columns), finished(run, rows), atol=1e-6)


def test_the_share_of_gaps_that_are_penalised_is_logged():
    rows = data(torch.float32)
    tree = run_of().model_dump(mode="json")
    none, every = (
        parse(RunSpec, with_changes(tree, {"train.loss.point": {"kind": "mbls", "margin": margin}}))
        for margin in (99, 0)
    )
    assert [e.logs for e in fit([none], rows) if isinstance(e, Epoch)] == [{"margin_active": 0.0}] * 4
    # All but the largest of four classes that have rows.
    shares = [e.logs["margin_active"] for e in fit([every], rows) if isinstance(e, Epoch)]
    assert shares == pytest.approx([0.75] * 4)
