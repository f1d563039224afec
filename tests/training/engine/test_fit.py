from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.training.data.part import Data, Part
from frostbench.training.data.train_rows import train_rows
from frostbench.training.engine.events import Epoch, Failed, Finished, Started
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec

QUICK = {"train": {"schedule": {"epochs": 6, "min_steps": 0, "batch_size": 32}}}
FULL = {
    "head": {"preprocess": {"center": True, "std": True}, "body": {"kind": "mlp", "hidden": [16, 8]}},
    "train": {
        "loss": {"smoothing": {"epsilon": 0.1}, "class_weight": {"kind": "effective"}, "hardmine": {"keep": 0.5}},
        "optim": {"kind": "adamw", "lr": 0.02},
        "schedule": {"epochs": 12, "min_steps": 0, "batch_size": 32},
    },
    "posthoc": {"calibration": {"kind": "temperature"}},
}


def run(tree):
    return RunSpec.model_validate(tree)


def finished(data, *trees):
    return [e for e in fit([run(t) for t in trees], data) if isinstance(e, Finished)]


def test_events_come_in_order_and_name_their_run(long_tail):
    events = list(fit([run(QUICK), run(QUICK | {"seed": 1})], long_tail))
    kinds = [(type(e), e.run) for e in events]
    one = [Started] + [Epoch] * 6 + [Finished]
    assert kinds == [(k, 0) for k in one] + [(k, 1) for k in one]
    assert [e.epoch for e in events if isinstance(e, Epoch)] == [1, 2, 3, 4, 5, 6] * 2


def test_the_same_seed_gives_the_same_head_bit_for_bit(long_tail):
    torch.manual_seed(1)
    first, other = finished(long_tail, FULL, FULL | {"seed": 1})
    torch.manual_seed(2)
    (again,) = finished(long_tail, FULL)
    a, b, c = (e.head.logits(long_tail.select.columns) for e in (first, again, other))
    assert torch.equal(a, b)
    assert first.head.temperature == again.head.temperature
    assert not torch.equal(a, c)


def test_training_leaves_the_global_random_state_alone(long_tail):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    finished(long_tail, FULL)
    assert torch.equal(before, torch.get_rng_state())


def test_the_best_epoch_is_kept(long_tail):
    by_f1 = {"train": FULL["train"] | {"early_stop": {"metric": "macro_f1_fg"}}}
    events = list(fit([run(FULL | by_f1)], long_tail))
    best = max(e.metrics["macro_f1_fg"] for e in events if isinstance(e, Epoch))
    kept = events[-1]
    predicted = kept.head.logits(long_tail.select.columns).argmax(1)
    counts = torch.tensor([120, 40, 15, 5])
    found = decision_metrics(long_tail.select.labels, predicted, counts)["macro_f1_fg"]
    assert found == pytest.approx(best, abs=1e-12)
    equals = [e for e in events if isinstance(e, Epoch) and e.metrics["macro_f1_fg"] == best]
    assert kept.epoch == min(equals, key=lambda e: e.metrics["nll"]).epoch


def test_patience_ends_a_run_that_no_longer_gets_better(long_tail):
    tree = {"early_stop": {"patience": 2}, "schedule": {"epochs": 500, "min_steps": 0, "batch_size": 512}}
    (end,) = finished(long_tail, {"train": tree | {"optim": {"kind": "adamw", "lr": 0.3}}})
    assert end.reason == "early_stop"
    assert end.epoch < 498


def test_stopped_runs_return_their_best_heads_and_later_stacks_are_not_started(long_tail):
    calls = []

    def stop():
        calls.append(1)
        return len(calls) >= 3

    events = list(fit([run(QUICK), run(QUICK), run(QUICK | {"seed": 1})], long_tail, stop))
    kinds = [(type(e), e.run) for e in events]
    assert kinds == [(Started, 0), (Started, 1)] + [(Epoch, 0), (Epoch, 1)] * 3 + [(Finished, 0), (Finished, 1)]
    for end in events[-2:]:
        assert end.reason == "stopped"
        assert end.head.logits(long_tail.select.columns).isfinite().all()


def test_training_time_and_post_hoc_adjustment_have_the_same_optimum_in_a_head_with_a_free_bias(long_tail):
    logreg = {"head": {"classifier": {"kind": "logreg", "c": 10}}}
    trained = logreg | {"train": {"loss": {"logit_adjustment": {"tau": 1}}}}
    posthoc = logreg | {"posthoc": {"adjustment": {"tau": 1}}}
    a, b = finished(long_tail, trained, posthoc)
    columns = long_tail.select.columns
    wanted = b.head.log_probabilities(columns).exp()
    assert a.head.log_probabilities(columns).exp().numpy() == pytest.approx(wanted.numpy(), abs=1e-3)
    for end in (a, b):
        assert end.head.priors.implied.tolist() == pytest.approx([0.25] * 4)


def test_the_temperature_is_fitted_on_the_calibration_rows(long_tail):
    (end,) = finished(long_tail, FULL)
    part = long_tail.calibrate
    logits = end.head.logits(part.columns).double()
    losses = [
        cross_entropy(logits / t, part.labels).item() for t in (end.head.temperature * f for f in (0.99, 1, 1.01))
    ]
    assert losses[1] == min(losses)
    wanted = (logits / end.head.temperature).log_softmax(1)
    assert end.head.log_probabilities(part.columns).numpy() == pytest.approx(wanted.numpy(), abs=1e-5)


def test_absent_classes_are_never_predicted(long_tail):
    kept = long_tail.train.labels != 3
    train = Part({"avg": long_tail.train.columns["avg"][kept]}, long_tail.train.labels[kept])
    (end,) = finished(replace(long_tail, train=train), FULL)
    log_p = end.head.log_probabilities(long_tail.select.columns)
    assert (log_p[:, 3] == -torch.inf).all()
    assert log_p[:, :3].exp().sum(1).numpy() == pytest.approx(1, abs=1e-5)


def test_columns_are_joined_in_the_order_given(long_tail):
    def both(part):
        x = part.columns["avg"]
        return Part({"cls": x[:, :3], "patch_mean": x[:, 3:]}, part.labels)

    data = Data(both(long_tail.train), both(long_tail.select), both(long_tail.calibrate), long_tail.class_names)
    (joined,) = finished(data, QUICK | {"columns": ["cls", "patch_mean"]})
    (turned,) = finished(data, QUICK | {"columns": ["patch_mean", "cls"]})
    for end, names in ((joined, ("cls", "patch_mean")), (turned, ("patch_mean", "cls"))):
        units = train_rows(run(QUICK | {"columns": names}), data).preprocess.unit
        assert end.head.columns == names
        wanted = end.head.head.classifier(data.select.features(names) / units)
        assert torch.allclose(end.head.logits(data.select.columns), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"columns": ["cls"]}, r"got \['cls'\], but the table has \['avg'\]"),
        ({"background": ["oak"]}, r"Background classes must be classes of the table, got \['oak'\]"),
        (
            {"head": {"classifier": {"kind": "logreg"}, "body": {"kind": "mlp"}}},
            "body in front of it would stay untrained",
        ),
        (
            {"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": {"hardmine": {"keep": 0.5}}}},
            "logreg have no batches",
        ),
    ],
)
def test_runs_that_cannot_be_are_refused(long_tail, tree, message):
    with pytest.raises(ValueError, match=message):
        list(fit([run(tree)], long_tail))


def test_missing_selection_or_calibration_rows_are_named(long_tail):
    empty = Part({"avg": torch.zeros(0, 8)}, torch.zeros(0, dtype=torch.long))
    with pytest.raises(ValueError, match="validation rows, but there are none"):
        list(fit([run(QUICK)], replace(long_tail, select=empty)))
    with pytest.raises(ValueError, match="calibration rows, but there are none"):
        list(fit([run(FULL)], replace(long_tail, calibrate=empty)))


@pytest.mark.parametrize("role", ["train", "select"])
def test_vectors_that_are_not_finite_are_refused_before_training(long_tail, role):
    part = getattr(long_tail, role)
    x = part.columns["avg"].clone()
    x[7, 2] = float("nan")
    spoiled = replace(long_tail, **{role: Part({"avg": x}, part.labels)})
    with pytest.raises(
        ValueError, match=rf"1 of \d+ {role} rows of column avg holds NaN or infinity, the first in row 7"
    ):
        list(fit([run(QUICK)], spoiled))


def test_a_run_that_diverges_at_once_is_reported_and_later_ones_continue(long_tail):
    solved = {"head": {"preprocess": {"center": True, "std": True}, "classifier": {"kind": "lda"}}}
    # Each of the epoch's 23 steps multiplies the weights by about -1000.
    steep = {"optim": {"kind": "sgd", "lr": 100, "weight_decay": 10}, "schedule": {"epochs": 6, "batch_size": 8}}
    *_, failed, _, end = fit([run({"train": steep}), run(solved)], long_tail)
    assert isinstance(failed, Failed)
    assert failed.run == 0
    assert "it diverged in epoch 1, before any epoch could be kept" in failed.message
    assert "Lower train.optim.lr, now 100." in failed.message
    assert (end.run, end.reason) == (1, "solved")


def test_a_run_that_diverges_later_returns_its_best_epoch(long_tail, monkeypatch):
    from frostbench.training.engine import stage_loop as steps

    real = steps._pass

    def spoiled(stage, epoch, epochs, stop):
        losses, is_cut = real(stage, epoch, epochs, stop)
        return ([float("nan")] if epoch == 4 else losses), is_cut

    monkeypatch.setattr(steps, "_pass", spoiled)
    (end,) = finished(long_tail, QUICK)
    assert end.reason == "diverged"
    assert end.epoch <= 3
    assert end.head.logits(long_tail.select.columns).isfinite().all()


def test_a_mistake_in_the_last_run_costs_no_training(long_tail):
    events = fit([run(QUICK), run(QUICK | {"columns": ["cls"]})], long_tail)
    with pytest.raises(ValueError, match="cls"):
        next(events)


def test_background_classes_leave_the_foreground_metric(long_tail):
    def last(tree):
        return [e for e in fit([run(tree)], long_tail) if isinstance(e, Epoch)][-1].metrics

    without = last(QUICK | {"background": ["ash"]})
    assert without["n_fg_evaluated"] == 3
    assert without["macro_f1_fg"] != last(QUICK)["macro_f1_fg"]


def test_a_long_pass_can_be_stopped_and_what_it_learnt_is_kept(long_tail, monkeypatch):
    monkeypatch.setattr("frostbench.training.engine.stage_loop.STOP_CHECK_SECONDS", -1.0)
    calls = []

    def stop():
        calls.append(1)
        return len(calls) >= 2

    tree = {"train": {"schedule": {"epochs": 5, "min_steps": 0, "batch_size": 8}}}
    *epochs, end = [e for e in fit([RunSpec.model_validate(tree)], long_tail, stop) if not isinstance(e, Started)]
    assert (end.reason, end.epoch, len(epochs)) == ("stopped", 1, 1)
    assert len(calls) < len(long_tail.train) / 8
