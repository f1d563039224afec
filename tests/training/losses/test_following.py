"""AdaFocal and CRL: losses with state from earlier epochs."""

import pytest
import torch
from catalogue import data
from four_rows import Y, Z
from torch.nn.functional import cross_entropy

from frostbench.benchmarks.settings.parsing import parse, with_changes
from frostbench.training.crossval.crossval import check_runs
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit, never
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stage_loop import StageFinished, run_stage
from frostbench.training.engine.stages import first_stage
from frostbench.training.losses.adafocal import AdaFocal
from frostbench.training.losses.crl import Crl, right
from frostbench.training.losses.scores import Scores, Targets
from frostbench.training.run import RunSpec


def adafocal(power):
    edges, powers = torch.zeros(0, dtype=torch.float64), torch.tensor([power], dtype=torch.float64)
    return AdaFocal(bins=1).by_bin(Scores(Z, Z, Z.log_softmax(1)), Targets(Y), edges, powers)


@pytest.mark.parametrize(("power", "mean"), [(2.0, 1.3096554820247377), (-0.5, 1.6051283304854258)])
def test_positive_and_negative_powers(power, mean):
    assert float(adafocal(power).mean()) == pytest.approx(mean, abs=1e-12)


def test_a_power_near_zero_is_cross_entropy():
    assert torch.allclose(adafocal(1e-12), cross_entropy(Z, Y, reduction="none"))


def test_each_sample_has_the_power_of_its_bin():
    edges, powers = torch.tensor([0.6], dtype=torch.float64), torch.tensor([2.0, -0.5], dtype=torch.float64)
    found = AdaFocal(bins=2).by_bin(Scores(Z, Z, Z.log_softmax(1)), Targets(Y), edges, powers)
    # The labels' probabilities are .71, .585, .006 and .925.
    assert torch.allclose(found, torch.where(torch.tensor([False, True, True, False]), adafocal(2.0), adafocal(-0.5)))


def test_powers_follow_the_gap_of_bins_of_equal_size():
    spec, sure = AdaFocal(bins=3), torch.tensor([0.9, 0.2, 0.5, 0.95, 0.4, 0.6], dtype=torch.float64)
    hits = torch.tensor([1.0, 1, 0, 0, 1, 1], dtype=torch.float64)
    edges, powers = spec.after_epoch(torch.tensor([1.0, -1.0, 0.25], dtype=torch.float64), sure, hits)
    assert edges.tolist() == pytest.approx([0.45, 0.75])
    # Gaps: .3 - 1, .55 - .5 and .925 - .5; the second power is negative, and grows when its rows are too unsure.
    wanted = [
        torch.tensor(-0.7).exp().item(),
        -torch.tensor(-0.05).exp().item(),
        0.25 * torch.tensor(0.425).exp().item(),
    ]
    assert powers.tolist() == pytest.approx(wanted, rel=1e-6)


def test_bins_without_rows_keep_their_power():
    sure = torch.tensor([0.3, 0.8], dtype=torch.float64)
    edges, powers = AdaFocal(bins=4).after_epoch(torch.ones(4, dtype=torch.float64), sure, torch.ones(2).double())
    assert powers.tolist() == pytest.approx(
        [torch.tensor(-0.7).exp().item(), torch.tensor(-0.2).exp().item(), 1, 1], rel=1e-6
    )
    assert edges.diff().min() >= 0


def run_of(changes):
    quick = {"train.schedule.epochs": 4, "train.schedule.min_steps": 0, "train.early_stop.metric": "last"}
    return parse(RunSpec, with_changes(RunSpec().model_dump(mode="json"), quick | changes))


def test_powers_move_by_the_selection_rows_after_each_epoch():
    rows = data(torch.float32)
    run = run_of({"train.loss.point": {"kind": "adafocal", "bins": 2}, "train.schedule.epochs": 1})
    (stage,) = [first_stage(run_contexts([0], [run], rows))]
    core = next(event.core for event in run_stage(stage, [0], never) if isinstance(event, StageFinished))
    with torch.no_grad():
        logits = core(stage.contexts[0].head.preprocess(rows.select.columns["x"]))[:, :4]
    sure, best = logits.softmax(1).max(1)
    known = rows.select.labels < 4
    assert known.sum() == 24
    edges, powers = AdaFocal(bins=2).after_epoch(torch.ones(2), sure[known], (best == rows.select.labels)[known])
    assert torch.allclose(stage.stack.objectives[0].parts.point.powers, powers)
    assert torch.allclose(stage.stack.objectives[0].parts.point.edges, edges)
    assert not torch.allclose(powers, torch.ones(2))


def test_adafocal_is_not_cross_validated(monkeypatch):
    with pytest.raises(ValueError, match="adafocal follows the calibration of validation rows during training"):
        check_runs([run_of({"train.loss.point.kind": "adafocal"})], data())
    follows = property(lambda self: ("adafocal", "crl"))
    monkeypatch.setattr("frostbench.training.losses.loss.LossSpec.following", follows)
    with pytest.raises(ValueError, match="adafocal and crl follow the calibration of validation rows during training"):
        check_runs([run_of({})], data())


def test_crl_of_the_worked_example():
    history = torch.tensor([1, 0.5, 0, 0.75], dtype=torch.float64)
    assert float(Crl()(Z, history)) == pytest.approx(0.564462292288179, abs=1e-12)
    assert right(Z, Y).tolist() == [1, 1, 0, 1]


def test_rows_of_equal_history_are_not_ranked():
    assert float(Crl()(Z, torch.full((4,), 0.3, dtype=torch.float64))) == 0
    one = Crl()(Z[:1], torch.ones(1, dtype=torch.float64))
    assert float(one) == 0


def test_history_counts_visits_and_hits_of_each_row():
    rows = data(torch.float32)
    run = run_of({"train.loss.crl.weight": 0.5, "train.optim.lr": 1e-9, "train.schedule.epochs": 3})
    stage = first_stage(run_contexts([0], [run], rows))
    core = next(event.core for event in run_stage(stage, [0], never) if isinstance(event, StageFinished))
    state = stage.stack.objectives[0].parts.crl
    assert state.visits.tolist() == [3] * 71
    with torch.no_grad():
        hits = core(stage.rows.x)[:, :4].argmax(1) == rows.train.labels
    assert torch.equal(state.rights, 3 * hits.float())


def test_crl_changes_training():
    rows = data(torch.float32)
    found = [
        next(e for e in fit([run_of({"train.loss.crl.weight": w})], rows) if isinstance(e, Finished))
        for w in (0.0, 1.0)
    ]
    first, second = (event.head.logits(rows.select.columns)[:, :4] for event in found)
    assert not torch.allclose(first, second, atol=1e-4)
