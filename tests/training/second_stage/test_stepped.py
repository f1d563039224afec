"""Second stages with gradient steps."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from frostbench.training.data.part import Part
from frostbench.training.engine.events import Epoch, Failed, Finished, Started
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import decision_metrics
from frostbench.training.run import RunSpec
from frostbench.training.second_stage.stepped import SteppedStage

MLP = {"preprocess": {"center": True, "std": True}, "body": {"kind": "mlp", "hidden": [16, 8]}}
COUNTS = torch.tensor([120, 40, 15, 5])


def run(second=None, train=None, **changes):
    schedule = {"epochs": 6, "min_steps": 0, "batch_size": 32}
    tree = {"head": MLP, "train": {"optim": {"kind": "adamw", "lr": 0.01}, "schedule": schedule} | (train or {})}
    return RunSpec.model_validate(tree | changes | ({"second": {"kind": "crt"} | second} if second is not None else {}))


def ended(data, spec):
    return list(fit([spec], data))[-1]


def epochs_of(events):
    return [e for e in events if isinstance(e, Epoch)]


@pytest.mark.parametrize("init", ["fresh", "keep"])
@pytest.mark.parametrize("train", [{}, {"augment": {"noise": 0.3}, "mixup": {"alpha": 1, "where": "hidden"}}])
def test_the_body_is_that_of_the_first_stage_bit_for_bit(long_tail, init, train):
    train = {"schedule": {"epochs": 6, "min_steps": 0, "batch_size": 32}} | train
    first = ended(long_tail, run(train=train)).head.head.state_dict()
    both = ended(long_tail, run({"init": init}, train)).head.head.state_dict()
    assert first.keys() == both.keys()
    moved = {name for name in first if not torch.equal(first[name], both[name])}
    assert moved == {"classifier.weight", "classifier.bias"}


def test_keep_starts_from_the_first_stage_and_fresh_does_not(long_tail):
    first, kept, fresh = (
        ended(long_tail, spec).head.head.classifier.weight.detach()
        for spec in (run(), *(run({"init": init, "epochs": 1, "lr": 1e-6}) for init in ("keep", "fresh")))
    )
    assert torch.allclose(kept, first, atol=1e-4)
    assert (fresh - first).abs().max() > 0.1


def test_it_minimises_plain_cross_entropy_of_rows_as_they_are(long_tail):
    """A tiny step, whose loss would reveal weights, smoothing, mixing, augmentation or dropout."""
    train = {
        "loss": {"class_weight": {"kind": "inverse"}, "smoothing": {"epsilon": 0.1}, "hardmine": {"keep": 0.5}},
        "augment": {"noise": 1},
        "mixup": {"alpha": 1},
        "schedule": {"epochs": 3, "min_steps": 0, "batch_size": 512},
    }
    second = {"init": "keep", "sampler": "instance", "epochs": 1, "lr": 1e-12}
    *_, epoch, end = fit([run(second, train)], long_tail)
    with torch.no_grad():
        logits = end.head.head(long_tail.train.columns["avg"])
    assert epoch.loss == pytest.approx(cross_entropy(logits, long_tail.train.labels).item(), rel=1e-5)


def test_epochs_count_on_and_the_last_stage_keeps_its_best(long_tail):
    spec = run({"epochs": 5})
    events = list(fit([spec], long_tail))
    assert events[0] == Started(0, 11)
    assert spec.epochs_for(len(long_tail.train)) == 11
    assert [e.epoch for e in epochs_of(events)] == list(range(1, 12))
    second = epochs_of(events)[6:]
    best = max(e.metrics["macro_f1_fg"] for e in second)
    equals = [e for e in second if e.metrics["macro_f1_fg"] == best]
    assert events[-1].epoch == min(equals, key=lambda e: e.metrics["nll"]).epoch
    assert second[0].best_epoch == 7
    predicted = events[-1].head.logits(long_tail.select.columns).argmax(1)
    found = decision_metrics(long_tail.select.labels, predicted, COUNTS)["macro_f1_fg"]
    assert found == pytest.approx(best, abs=1e-12)


def test_epochs_go_on_after_an_early_stop(long_tail):
    train = {"early_stop": {"patience": 1}, "schedule": {"epochs": 500, "min_steps": 0, "batch_size": 512}}
    events = list(fit([run({"epochs": 3}, train)], long_tail))
    numbers = [e.epoch for e in epochs_of(events)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert events[0].epochs == 503
    assert len(numbers) < 100
    assert events[-1].reason in ("early_stop", "all_epochs")


def test_small_tables_are_passed_over_more_often_in_both_stages():
    spec = RunSpec.model_validate({"second": {"kind": "crt"}})
    assert spec.epochs_for(640) == 100 + 100
    assert spec.epochs_for(64_000) == 50 + 10
    assert RunSpec().epochs_for(640) == 100


def test_two_runs_are_the_same_bit_for_bit(long_tail):
    a, b = (ended(long_tail, run({})).head.logits(long_tail.select.columns) for _ in range(2))
    assert torch.equal(a, b)


def losing(limit, **second):
    """Build a run whose second stage favours rare classes at once and has its own metric."""
    return run({"lr": 0.1, "metric": "recall_few", "max_head_loss": limit} | second)


def test_epochs_that_lose_more_of_the_frequent_classes_than_allowed_are_not_kept(long_tail):
    free = epochs_of(fit([losing(None)], long_tail))
    before, second = free[free[5].best_epoch - 1].metrics["recall_many"], free[6:]
    lost = [before - e.metrics["recall_many"] for e in second]
    limit = sorted(lost)[len(lost) // 2]
    allowed = [e for e, each in zip(second, lost, strict=True) if each <= limit + 1e-9]
    assert 0 < len(allowed) < len(second)
    wanted = max(allowed, key=lambda e: e.metrics["recall_few"])
    end = ended(long_tail, losing(limit))
    assert end.epoch == wanted.epoch
    assert end.chosen.epochs == (free[5].best_epoch, wanted.epoch - 6)
    predicted = end.head.logits(long_tail.select.columns).argmax(1)
    found = decision_metrics(long_tail.select.labels, predicted, COUNTS)
    assert found["recall_many"] == pytest.approx(wanted.metrics["recall_many"])
    assert found["recall_few"] == pytest.approx(wanted.metrics["recall_few"])


@pytest.mark.parametrize("second", [{}, {"init": "keep"}, {"kind": "lws"}])
def test_the_first_stage_is_the_result_where_no_epoch_keeps_to_the_limit(long_tail, monkeypatch, second):
    monkeypatch.setattr(SteppedStage, "floor", lambda *_: 2.0)
    first, both = ended(long_tail, run()), ended(long_tail, losing(0, **second))
    assert both.chosen.epochs == (first.epoch, 0)
    assert both.epoch == first.epoch
    states = [end.head.head.state_dict() for end in (first, both)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert torch.equal(first.head.priors.implied, both.head.priors.implied)


def test_a_metric_of_its_own_decides_which_epoch_is_kept(long_tail):
    events = list(fit([run({"metric": "nll"})], long_tail))
    second = epochs_of(events)[6:]
    assert events[-1].epoch == min(second, key=lambda e: e.metrics["nll"]).epoch


@pytest.mark.parametrize("stop", [{}, {"metric": "last"}, {"epoch": 2}])
@pytest.mark.parametrize(
    ("second", "message"),
    [({"max_head_loss": 0.1}, "no such class has validation rows"), ({"metric": "recall_few"}, "recall_few")],
)
def test_what_judges_a_second_stage_must_be_there_before_the_first_begins(long_tail, stop, second, message):
    """Two classes of 40 rows: none is frequent, and none is rare."""
    kept = (long_tail.train.labels < 2) & (torch.arange(180) >= 80)
    train = Part({"avg": long_tail.train.columns["avg"][kept]}, long_tail.train.labels[kept])
    assert train.labels.bincount().tolist() == [40, 40]
    with pytest.raises(ValueError, match=message):
        list(fit([run(second, {"early_stop": stop})], replace(long_tail, train=train)))


@pytest.mark.parametrize(
    ("sampler", "wanted"),
    [
        ("class_balanced", [0.25] * 4),
        ("square_root", [n**0.5 / sum(m**0.5 for m in COUNTS.tolist()) for n in COUNTS.tolist()]),
        ("instance", [n / 180 for n in COUNTS.tolist()]),
    ],
)
class TestPriors:
    def test_the_logits_carry_the_shares_of_the_sampler(self, long_tail, sampler, wanted):
        loss = {"loss": {"class_weight": {"kind": "effective"}, "logit_adjustment": {"tau": 1}}}
        schedule = {"schedule": {"epochs": 2, "min_steps": 0}}
        priors = ended(long_tail, run({"sampler": sampler}, loss | schedule)).head.priors
        assert priors.implied.tolist() == pytest.approx(wanted)
        assert priors.effective.tolist() == pytest.approx(wanted)
        assert priors.raw.tolist() == pytest.approx((COUNTS / 180).tolist())

    def test_a_converged_classifier_predicts_the_shares_on_rows_drawn_by_them(self, long_tail, sampler, wanted):
        """At the optimum of a head with a free bias, mean predicted and mean true shares agree."""
        second = {"sampler": sampler, "epochs": 120, "lr": 0.05}
        train = {"early_stop": {"metric": "nll", "patience": 1000}, "schedule": {"epochs": 1, "min_steps": 0}}
        same = replace(long_tail, select=long_tail.train)
        head = ended(same, run(second, train, head={"preprocess": MLP["preprocess"]})).head
        p = head.logits(long_tail.train.columns).softmax(1).double()
        weight = (torch.tensor(wanted) / COUNTS)[long_tail.train.labels].double()
        assert (weight @ p).tolist() == pytest.approx(wanted, abs=0.02)

    def test_prediction_under_the_raw_prior_undoes_the_sampler(self, long_tail, sampler, wanted):
        head = ended(long_tail, run({"sampler": sampler})).head
        shift = head.prior_shift(head.priors.raw)
        assert shift.tolist() == pytest.approx(((COUNTS / 180) / torch.tensor(wanted)).log().tolist(), abs=1e-5)


def test_a_class_without_rows_stays_out(long_tail):
    kept = long_tail.train.labels != 1
    train = Part({"avg": long_tail.train.columns["avg"][kept]}, long_tail.train.labels[kept])
    head = ended(replace(long_tail, train=train), run({})).head
    assert head.priors.implied.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert (head.logits(long_tail.select.columns)[:, 1] == -torch.inf).all()


def test_rare_classes_win_recall(long_tail):
    """Four gaussian classes of 120, 40, 15 and 5 rows, of which the last two are few; the sum over two seeds."""
    train = {"schedule": {"epochs": 30, "min_steps": 0, "batch_size": 32}}

    def metrics(second):
        found = []
        for seed in range(2):
            head = ended(long_tail, run(second, train, seed=seed)).head
            predicted = head.logits(long_tail.calibrate.columns).argmax(1)
            found.append(decision_metrics(long_tail.calibrate.labels, predicted, COUNTS))
        return {name: sum(m[name] for m in found) for name in ("recall_few", "balanced_accuracy")}

    plain, crt = metrics(None), metrics({"epochs": 30, "lr": 0.01})
    assert crt["recall_few"] > plain["recall_few"] + 0.2
    assert crt["balanced_accuracy"] > plain["balanced_accuracy"]


class TestStop:
    def stopped_at(self, data, count, second):
        calls = []

        def stop():
            calls.append(1)
            return len(calls) >= count

        events = list(fit([run(second), run(second, seed=1)], data, stop))
        assert {e.run for e in events} == {0}
        assert isinstance(events[-1], Finished)
        assert events[-1].reason == "stopped"
        assert events[-1].head.logits(data.select.columns).isfinite().all()
        return events

    def test_in_the_first_stage_it_returns_that_stage(self, long_tail):
        events = self.stopped_at(long_tail, 3, {})
        assert len(epochs_of(events)) == 3
        assert events[-1].head.priors.implied.tolist() == pytest.approx((COUNTS / 180).tolist())

    def test_between_the_stages_it_returns_the_first(self, long_tail):
        events = self.stopped_at(long_tail, 6, {})
        assert len(epochs_of(events)) == 6
        assert events[-1].head.priors.implied.tolist() == pytest.approx((COUNTS / 180).tolist())

    def test_in_the_second_stage_it_returns_the_best_of_that(self, long_tail):
        events = self.stopped_at(long_tail, 8, {})
        assert len(epochs_of(events)) == 8
        assert events[-1].epoch in (7, 8)
        assert events[-1].head.priors.implied.tolist() == pytest.approx([0.25] * 4)


@pytest.mark.parametrize(("spoiled", "wanted"), [(4, 1 / 180 * COUNTS), (9, torch.full((4,), 0.25))])
def test_a_run_that_diverges_ends_in_that_stage_with_its_best(long_tail, monkeypatch, spoiled, wanted):
    from frostbench.training.engine import stage_loop as steps

    real, calls = steps._pass, []

    def once(*arguments):
        calls.append(1)
        return ([float("nan")], False) if len(calls) == spoiled else real(*arguments)

    monkeypatch.setattr(steps, "_pass", once)
    end = ended(long_tail, run({}))
    assert end.reason == "diverged"
    assert end.epoch < spoiled
    assert end.head.priors.implied.tolist() == pytest.approx(wanted.tolist())


def test_a_second_stage_that_diverges_at_once_names_its_learning_rate(long_tail, monkeypatch):
    from frostbench.training.engine import stage_loop as steps

    real, calls = steps._pass, []

    def after_the_first_stage(*arguments):
        calls.append(1)
        return ([float("nan")], False) if len(calls) == 7 else real(*arguments)

    monkeypatch.setattr(steps, "_pass", after_the_first_stage)
    end = ended(long_tail, run({}))
    assert isinstance(end, Failed)
    assert "it diverged in epoch 7" in end.message
    assert end.message.endswith("Lower second.lr, now 0.001.")


def test_a_run_that_ends_before_its_weights_act_carries_the_prior_of_the_rows(long_tail):
    late = {"class_weight": {"kind": "inverse"}, "weight_schedule": {"kind": "deferred", "start": 0.5}}
    counts = torch.bincount(long_tail.train.labels, minlength=len(long_tail.class_names)).double()
    uniform = torch.full_like(counts, 1 / len(counts))

    def implied(epoch, loss=None, **train):
        stop = {"metric": "last", "epoch": epoch}
        schedule = {"epochs": 4, "min_steps": 0, "batch_size": 64}
        changes = {"loss": loss or {}, "early_stop": stop, "schedule": schedule} | train
        return ended(long_tail, run(train=changes)).head.priors.implied

    torch.testing.assert_close(implied(2, late), counts / counts.sum())
    torch.testing.assert_close(implied(3, late), uniform)
    growing = {"sampler": {"kind": "shuffled", "draw": "progressive"}}
    torch.testing.assert_close(implied(1, **growing), 0.75 * counts / counts.sum() + 0.25 * uniform)
    torch.testing.assert_close(implied(4, **growing), uniform)
