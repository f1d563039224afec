import sys

import pytest
import torch
from catalogue import BASE, data, merged

from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Started
from frostbench.training.engine.fit import fit
from frostbench.training.engine.run_context import run_contexts
from frostbench.training.engine.stages import first_stage
from frostbench.training.run import RunSpec
from frostbench.training.sampling.oversample import GaussianOversample, NoOversample, Smote, wanted_rows

COUNTS = [60, 20, 9, 4, 2, 1, 0, 9]
LABELS = torch.arange(8).repeat_interleave(torch.tensor(COUNTS))
LABELS = LABELS[torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(2))]
X = torch.randn(len(LABELS), 3, generator=torch.Generator().manual_seed(0)) + 20 * LABELS[:, None]
EACH = [Smote(), GaussianOversample()]


def extra(spec, seed=0, x=X, labels=LABELS):
    return spec.extra_rows(x, labels, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("spec", EACH)
def test_small_classes_reach_the_median_and_no_other_grows(spec):
    rows, labels = extra(spec)
    assert (torch.bincount(LABELS, minlength=8) + torch.bincount(labels, minlength=8)).tolist() == [
        60, 20, 9, 9, 9, 9, 0, 9,
    ]  # fmt: skip
    assert (rows.shape, rows.dtype, labels.dtype) == ((20, 3), torch.float32, torch.int64)
    # Classes lie 20 apart, so every row lies by its own.
    assert ((rows - 20 * labels[:, None]).abs() < 8).all()


@pytest.mark.parametrize("spec", EACH)
def test_rows_are_seeded_and_new(spec):
    assert torch.equal(extra(spec)[0], extra(spec)[0])
    assert not torch.equal(extra(spec)[0], extra(spec, seed=1)[0])
    assert torch.cdist(extra(spec)[0], X).min() > 0


@pytest.mark.parametrize("spec", [*EACH, NoOversample()])
def test_classes_of_one_size_need_none(spec):
    x = X.double()[:6]
    rows, labels = extra(spec, x=x, labels=torch.arange(6) // 2)
    assert (rows.shape, labels.shape, rows.dtype, labels.dtype) == ((0, 3), (0,), torch.float64, torch.int64)


def test_the_median_is_the_lower_one_of_the_classes_that_have_rows():
    assert wanted_rows(torch.tensor([0] * 4 + [1] * 3 + [3] * 2 + [4])).tolist() == [0, 0, 0, 0, 1]


def test_smote_without_jitter_lies_between_two_rows_of_the_class_and_repeats_single_rows():
    rows, labels = extra(Smote(jitter=0))
    for row, label in zip(rows, labels, strict=True):
        own = X[label == LABELS]
        gap = torch.cdist(own, own) - (torch.cdist(own, row[None]) + torch.cdist(row[None], own))
        assert gap.max().item() == pytest.approx(0, abs=1e-3)
        assert (row == own).all(1).any() == (len(own) == 1)


def test_smote_looks_at_the_five_nearest_rows_of_the_class():
    """The class has two bunches of six rows, far apart; rows of the other classes lie between them."""
    corners = torch.eye(6)
    x = torch.cat([corners, corners + 1000, torch.full((120, 6), 500.0)])
    labels = torch.cat([torch.zeros(12), torch.ones(60), torch.full((60,), 2)]).long()
    rows, owner = extra(Smote(jitter=0), x=x, labels=labels)
    assert owner.tolist() == [0] * 48
    pairs = torch.where(rows > 500, rows - 1000, rows) > 1e-3
    assert pairs.sum(1).max() == 2
    # Six corners make 15 pairs, of which each corner with its nearest one makes 6 at most.
    assert len(pairs.unique(dim=0)) > 10


def test_jitter_is_in_units_of_each_channel():
    x = torch.cat([torch.randn(4001, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10])] * 2)
    labels = torch.cat([torch.zeros(4001), torch.ones(4000), torch.tensor([2])]).long()
    rows, owner = extra(Smote(jitter=0.5), x=x, labels=labels)
    assert owner.unique().tolist() == [2]
    assert rows.std(0).tolist() == pytest.approx([0.5, 5], rel=0.05)
    assert rows.mean(0).tolist() == pytest.approx(x[-1].tolist(), abs=0.3)


def test_gaussian_rows_have_the_mean_and_the_shrunk_covariance_of_their_class():
    generator = torch.Generator().manual_seed(0)
    few = torch.tensor([[0, 0], [2, 0], [0, 4.0], [2, 4], [1, 2]], dtype=torch.float64)
    wide = torch.randn(40_000, 2, dtype=torch.float64, generator=generator) @ torch.tensor([[3.0, 1], [0, 2]]).double()
    x = torch.cat([wide, few, wide])
    labels = torch.cat([torch.zeros(40_000), torch.ones(5), torch.full((40_000,), 2)]).long()
    rows, owner = extra(GaussianOversample(shrinkage=5), x=x, labels=labels)
    assert owner.tolist() == [1] * 39_995
    assert rows.mean(0).tolist() == pytest.approx([1, 2], abs=0.05)
    wanted = 0.5 * torch.tensor([[0.8, 0], [0, 3.2]]) + 0.5 * torch.tensor([[9.0, 3], [3, 5]])
    assert rows.T.cov().flatten().tolist() == pytest.approx(wanted.flatten().tolist(), rel=0.04)


@pytest.mark.parametrize("shrinkage", [0.0, 10.0])
def test_constant_channels_stay_and_fewer_rows_than_channels_do_no_harm(shrinkage):
    x = torch.randn(9, 30, generator=torch.Generator().manual_seed(0))
    x[:, 0] = 7
    rows, labels = extra(GaussianOversample(shrinkage=shrinkage), x=x, labels=torch.tensor([0] * 4 + [1] * 4 + [2]))
    assert labels.tolist() == [2, 2, 2]
    assert rows.isfinite().all()
    assert rows[:, 0].tolist() == pytest.approx([7] * 3, abs=1e-4)
    assert torch.equal(rows[0], x[8]) == (shrinkage == 0)


def test_without_imbalanced_learn_the_error_names_the_line_to_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "imblearn.over_sampling", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'frostbench\[smote\]'"):
        extra(Smote())


def test_made_up_rows_leave_the_number_of_epochs_alone():
    part = Part({"x": X}, LABELS)
    data = Data(part, part, part, tuple("abcdefgh"))
    schedule = {"epochs": 1, "min_steps": 45, "batch_size": 8}
    spec = RunSpec.model_validate({"train": {"oversample": {"kind": "gaussian"}, "schedule": schedule}})
    events = list(fit([spec], data))
    (started,) = [e for e in events if isinstance(e, Started)]
    # 105 rows are 14 batches and need four passes for 45 steps; with the 20 made up there are 16, and three would do.
    assert started.epochs == spec.epochs_for(len(LABELS)) == sum(isinstance(e, Epoch) for e in events) == 4


def test_rows_that_were_made_up_are_in_no_statistic():
    rows = data()
    seen = {}
    for kind in ("none", "gaussian"):
        tree = {"train": {"augment": {"noise": 0.1}, "oversample": {"kind": kind}}}
        stage = first_stage(run_contexts([0], [RunSpec.model_validate(merged(BASE, tree))], rows))
        seen[kind] = (len(stage.rows.labels), stage.stack.objectives[0].channels)
    assert seen["gaussian"][0] > seen["none"][0] == len(rows.train)
    assert all(torch.equal(a, b) for a, b in zip(seen["gaussian"][1], seen["none"][1], strict=True))
