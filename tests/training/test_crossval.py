from dataclasses import replace

import pytest
import torch

from heads.posthoc import fit_temperature
from heads.spec import with_numbers
from training.courses import best_epoch, fixed, kept_epoch, mean_course, means_of, paced
from training.crossval import CrossValidated, FoldFitted, check_runs, cross_validate, groups_of
from training.data import Data, Part
from training.engine import fit
from training.events import Epoch, Failed, Finished, Started
from training.metrics import all_metrics
from training.pooled import HeldOut, pooled
from training.run import RunSpec

CLASSES, EACH, DIM, FOLDS = 4, 6, 6, 3
SHORT = {"schedule": {"epochs": 7, "min_steps": 0, "batch_size": 8}, "optim": {"kind": "adamw", "lr": 0.05}}


def run(**tree):
    return RunSpec.model_validate({"train": SHORT} | tree)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(CLASSES, DIM, generator=generator)
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    x = centres[labels] + 1.2 * torch.randn(len(labels), DIM, generator=generator)
    nothing = Part({"avg": x[:0]}, labels[:0])
    return Data(Part({"avg": x}, labels), nothing, nothing, ("ash", "beech", "cedar", "elm"))


@pytest.fixture
def folds():
    """Two repeats of three folds, each with two rows of a class."""
    row = torch.arange(CLASSES * EACH)
    return torch.stack([row % FOLDS, row // 2 % FOLDS])


def ends(runs, data, folds):
    events = list(cross_validate(runs, data, folds))
    assert not [event for event in events if isinstance(event, Failed)]
    return {event.run: event for event in events if isinstance(event, CrossValidated)}


def parts(data, held):
    """Training data without a fold, which selects: written down anew, as an oracle."""
    x, labels = data.train.columns["avg"], data.train.labels
    inner, outer = Part({"avg": x[~held]}, labels[~held]), Part({"avg": x[held]}, labels[held])
    return Data(inner, outer, outer, data.class_names)


def one(spec, data):
    (end,) = [event for event in fit([spec], data) if isinstance(event, Finished)]
    return end


@pytest.mark.parametrize(
    ("values", "rows", "wanted"),
    [
        ([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [1, 1], 3),
        ([[0.1, 0.5, 0.2], [0.4, 0.1, 0.6]], [3, 1], 2),
        ([[0.5, 0.5], [0.5, 0.5]], [2, 1], 1),
        ([[None, 0.2, 0.4], [0.9, 0.2, 0.2]], [100, 1], 1),
        ([[0.1, 0.2], [0.1, 0.2, 0.9]], [1, 1], 2),
        ([[-3.0, -1.0, -2.0]], [5], 2),
    ],
)
def test_the_best_epoch_has_the_highest_mean_weighted_by_rows(values, rows, wanted):
    assert best_epoch(values, rows) == wanted


def test_means_leave_out_folds_without_a_value():
    assert means_of([[1.0, None], [4.0, None]], [1, 2]) == [3.0, None]
    with pytest.raises(ValueError, match="no fold has a class that it counts"):
        best_epoch([[None], [None]], [1, 1])


def course(*values):
    return [Epoch(0, i, loss=10.0 * i, metrics={"accuracy": v}, best_epoch=0) for i, v in enumerate(values, start=1)]


def test_the_epoch_of_a_fold_is_chosen_by_the_others_of_its_repeat():
    # Two repeats of two folds; the second repeat is judged.
    courses = [course(0.0, 0.0, 0.9), course(0.0, 0.0, 0.9), course(0.9, 0.1, 0.2), course(0.1, 0.8, 0.2)]
    asked = run(train=SHORT | {"early_stop": {"metric": "accuracy"}})
    kept = kept_epoch(asked, 0, courses, [1, 1, 1, 1], {0: 2, 1: 3})
    # Means of all four: 0.25, 0.225, 0.55.
    assert (kept.final, kept.without) == (3, {0: 2, 1: 1})
    told = mean_course(7, courses, [1, 1, 1, 1], 20, "accuracy")
    assert [(e.run, e.epoch, e.loss, e.best_epoch) for e in told] == [(7, 21, 10, 21), (7, 22, 20, 21), (7, 23, 30, 23)]
    assert [e.metrics["accuracy"] for e in told] == pytest.approx([0.25, 0.225, 0.55])
    asked = run(train=SHORT | {"early_stop": {"metric": "accuracy", "epoch": 2}})
    assert kept_epoch(asked, 0, courses, [1, 1, 1, 1], {0: 2, 1: 3}).without == {0: 2, 1: 2}
    asked = run(train=SHORT | {"early_stop": {"metric": "last"}})
    assert kept_epoch(asked, 0, courses, [1, 1, 1, 1], {0: 2, 1: 3}).final == 3


def test_a_solved_head_is_that_of_all_rows_and_predictions_are_of_heads_without_the_row(data, folds):
    spec = run(head={"classifier": {"kind": "logreg"}}, posthoc={"calibration": {"kind": "temperature"}})
    end = ends([spec], data, folds)[0]
    plain = run(head={"classifier": {"kind": "logreg"}})
    assert end.answers.logits.shape == (CLASSES * EACH, CLASSES)
    for fold in range(FOLDS):
        held = folds[0] == fold
        wanted = one(plain, parts(data, held)).head.logits({"avg": data.train.columns["avg"][held]})
        assert torch.allclose(end.answers.logits[held], wanted, atol=1e-6)
        others = fit_temperature(end.answers.logits[~held], data.train.labels[~held])
        assert torch.allclose(end.answers.log_p[held], (wanted / others).log_softmax(1), atol=1e-5)
    head = end.finished.head
    everything = replace(data, select=data.train, calibrate=data.train)
    wanted = one(plain, everything).head.logits(data.train.columns)
    assert torch.allclose(head.logits(data.train.columns), wanted, atol=1e-6)
    assert head.temperature == pytest.approx(fit_temperature(end.answers.logits, data.train.labels))
    assert torch.equal(head.calibration.logits, end.answers.logits)
    assert head.priors.counts.tolist() == [EACH] * CLASSES
    assert (end.finished.reason, end.finished.epoch) == ("solved", 0)


def test_a_stepped_head_keeps_the_epoch_of_the_mean_and_is_fitted_to_all_rows(data, folds):
    asked = run(train=SHORT | {"early_stop": {"metric": "nll", "patience": 1}})
    events = list(cross_validate([asked], data, folds))
    end = events[-1]
    # The same by hand: nll of every fold and epoch, without early stopping.
    watched = run(train=SHORT | {"early_stop": {"metric": "last"}})
    nll = {}
    for repeat in range(2):
        for fold in range(FOLDS):
            told = list(fit([watched], parts(data, folds[repeat] == fold)))
            nll[repeat, fold] = [event.metrics["nll"] for event in told if isinstance(event, Epoch)]
    means = torch.tensor(list(nll.values())).mean(0)
    best = int(means.argmin()) + 1
    assert best > 1
    epochs = [event for event in events if isinstance(event, Epoch)]
    assert [event.metrics["nll"] for event in epochs] == pytest.approx(means.tolist(), abs=1e-6)
    assert (end.finished.epoch, end.finished.reason, epochs[-1].best_epoch) == (best, "given_epoch", best)
    all_rows = run(train=SHORT | {"early_stop": {"epoch": best}})
    wanted = one(all_rows, replace(data, select=data.train)).head.logits(data.train.columns)
    assert torch.allclose(end.finished.head.logits(data.train.columns), wanted, atol=1e-5)
    for fold in range(FOLDS):
        others = torch.tensor([nll[0, other] for other in range(FOLDS) if other != fold]).mean(0)
        spec = run(train=SHORT | {"early_stop": {"epoch": int(others.argmin()) + 1}})
        held = folds[0] == fold
        own = one(spec, parts(data, held)).head.logits({"avg": data.train.columns["avg"][held]})
        assert torch.allclose(end.answers.logits[held], own, atol=1e-5)
        assert not torch.allclose(end.finished.head.logits({"avg": data.train.columns["avg"][held]}), own, atol=0.01)


def test_what_is_told_of_a_run_on_its_way(data, folds):
    events = list(cross_validate([run()], data, folds))
    fits = [event for event in events if isinstance(event, FoldFitted)]
    # Six to choose the epoch, three to predict, one to all rows.
    assert [(event.done, event.fits) for event in fits] == [(i + 1, 10) for i in range(10)]
    assert isinstance(events[0], Started)
    assert [event.epoch for event in events if isinstance(event, Epoch)] == list(range(1, 8))
    assert isinstance(events[-1], CrossValidated)


def test_every_fit_takes_the_epochs_of_all_rows():
    spec = run(train={"schedule": {"epochs": 2, "min_steps": 60, "batch_size": 8}}, second={"kind": "crt", "epochs": 3})
    wide = paced(spec, 24)
    assert wide.train.schedule.epochs_for(16) == wide.train.schedule.epochs_for(24) == 20
    assert wide.epochs_for(16) == 40


def test_runs_of_one_skeleton_go_together_and_equal_runs_alone(data, folds):
    rates = [run(train=SHORT | {"optim": {"kind": "adamw", "lr": lr}}) for lr in (0.01, 0.03, 0.1)]
    solved = run(head={"classifier": {"kind": "ridge"}})
    found = ends([*rates, solved], data, folds)
    assert [found[i].together for i in range(4)] == [3, 3, 3, 1]
    for place, spec in enumerate(rates):
        alone = ends([spec], data, folds)[0]
        assert alone.finished.epoch == found[place].finished.epoch
        assert torch.allclose(alone.answers.log_p, found[place].answers.log_p, atol=1e-4)


def test_seeds_are_judged_on_repeats_by_turns(data, folds):
    runs = [run(seed=seed, order_seed=0) for seed in range(4)]
    assert groups_of(runs, data, 2) == [[0, 2], [1, 3]]
    solved = run(head={"classifier": {"kind": "ridge"}}, seed=1)
    end = ends([solved], data, folds)[0]
    held = folds[1] == 0
    wanted = one(solved, parts(data, held)).head.logits({"avg": data.train.columns["avg"][held]})
    assert torch.allclose(end.answers.logits[held], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("second", "epochs"),
    [({"kind": "crt", "epochs": 5, "lr": 0.05}, 5), ({"kind": "lws", "epochs": 4}, 4)],
)
def test_a_second_stage_gets_its_own_epoch(data, folds, second, epochs):
    spec = run(second=second, train=SHORT | {"early_stop": {"metric": "nll"}})
    events = list(cross_validate([spec], data, folds))
    course = [event for event in events if isinstance(event, Epoch)]
    assert [event.epoch for event in course] == list(range(1, 7 + epochs + 1))
    first = min(course[:7], key=lambda event: event.metrics["nll"]).epoch
    later = min(course[7:], key=lambda event: event.metrics["nll"]).epoch
    end = events[-1].finished
    assert end.epoch == later
    fixed_run = fixed(spec, [first, later - 7])
    assert (fixed_run.train.early_stop.epoch, fixed_run.second.epoch) == (first, later - 7)
    wanted = one(fixed_run, replace(data, select=data.train)).head.logits(data.train.columns)
    assert torch.allclose(end.head.logits(data.train.columns), wanted, atol=1e-5)


def test_the_best_epoch_of_a_second_stage_is_told_by_its_own_metric(data, folds):
    spec = run(second={"kind": "crt", "epochs": 5, "lr": 0.5, "metric": "nll"})
    events = list(cross_validate([spec], data, folds))
    later = [event for event in events if isinstance(event, Epoch)][7:]
    lowest = [min(later[: place + 1], key=lambda event: event.metrics["nll"]).epoch for place in range(5)]
    highest = [max(later[: place + 1], key=lambda event: event.metrics["macro_f1_fg"]).epoch for place in range(5)]
    assert [event.best_epoch for event in later] == lowest != highest
    assert events[-1].finished.epoch == lowest[-1]


def test_the_power_of_tau_normalisation_is_chosen_on_held_out_rows(data, folds):
    spec = run(second={"kind": "tau_norm"})
    end = ends([spec], data, folds)[0].finished
    heads = {}
    for power in (k / 10 for k in range(21)):
        given = fixed(run(second={"kind": "tau_norm", "tau": power}), [end.epoch])
        heads[power] = one(given, replace(data, select=data.train)).head.logits(data.train.columns)
    logits = end.head.logits(data.train.columns)
    assert any(torch.allclose(logits, each, atol=1e-5) for each in heads.values())


def crafted(logits, folds, labels, log_prior=None):
    logits = torch.tensor(logits)
    prior = torch.zeros_like(logits) if log_prior is None else torch.tensor(log_prior).expand(len(logits), -1)
    labels = torch.tensor(labels)
    return HeldOut(logits[None], prior, labels, torch.tensor(folds), torch.bincount(labels), ())


def test_the_strength_is_tuned_on_the_rows_of_other_folds():
    # The rare class 1 is missed unless 0.5 * (log 0.9 - log 0.1) = 1.1 or more is taken off.
    prior = [[-0.1053605, -2.3025851]]
    held = crafted([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [3.0, 0.0]], [0, 0, 1, 1], [1, 0, 0, 0], prior)
    spec = run(posthoc={"adjustment": {"rule": "tuned"}}, train=SHORT | {"early_stop": {"metric": "accuracy"}})
    found = pooled(spec, held)
    assert found.tau == pytest.approx(0.5)
    # Fold 0 is judged with the strength of fold 1, which needs none; fold 1 with that of fold 0.
    assert found.answers.logits[0].tolist() == [1.0, 0.0]
    assert found.answers.logits[2].tolist() == pytest.approx([3 + 0.5 * 0.1053605, 0.5 * 2.3025851])
    metrics = all_metrics(found.answers.log_p, held.labels, held.counts)
    assert metrics["accuracy"] == 0.75


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_labels_of_a_fold_have_no_part_in_its_own_answers(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(90, 3, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    folds, prior = torch.arange(90) % 3, [[-0.3567, -1.6094, -2.3026]]
    other = torch.where(folds == 0, (labels + 1) % 3, labels)
    both = {"adjustment": {"rule": "tuned"}, "calibration": {"kind": "temperature"}}
    spec = run(posthoc=both, train=SHORT | {"early_stop": {"metric": "accuracy"}})
    before, after = (
        pooled(spec, crafted(logits.tolist(), folds.tolist(), each.tolist(), prior)).answers for each in (labels, other)
    )
    assert torch.equal(before.log_p[folds == 0], after.log_p[folds == 0])
    assert not torch.equal(before.log_p[folds != 0], after.log_p[folds != 0])


def test_rows_of_classes_that_a_fold_cannot_know_do_not_calibrate():
    inf = float("inf")
    held = crafted([[2.0, -inf], [1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], [0, 0, 1, 1], [1, 0, 1, 1])
    found = pooled(run(posthoc={"calibration": {"kind": "temperature"}}), held)
    assert len(found.calibration.labels) == 3
    assert found.answers.log_p[0].tolist() == [0.0, -inf]
    nobody = crafted([[2.0, -inf], [1.0, -inf]], [0, 1], [1, 1])
    with pytest.raises(ValueError, match="held-out rows of classes that were trained without them"):
        pooled(run(posthoc={"calibration": {"kind": "temperature"}}), nobody)


def test_a_stopped_group_gives_nothing_and_finished_ones_stay(data, folds):
    solved, stepped = run(head={"classifier": {"kind": "ridge"}}), run()
    events = []

    def stop():
        return any(isinstance(event, CrossValidated) for event in events)

    for event in cross_validate([solved, stepped], data, folds, stop):
        events.append(event)
    assert [event.run for event in events if isinstance(event, CrossValidated)] == [0]
    asked = iter([False] * 12)
    cut = list(cross_validate([stepped], data, folds, lambda: next(asked, True)))
    assert 0 < len([event for event in cut if isinstance(event, FoldFitted)]) < 6
    assert not [event for event in cut if isinstance(event, CrossValidated | Failed)]


def test_a_run_that_fails_in_a_fold_leaves_the_others_alone(data, folds):
    calm = run(train=SHORT | {"optim": {"kind": "sgd", "lr": 0.05}})
    steep = with_numbers(calm, {"train.optim.lr": 1e38})
    events = list(cross_validate([steep, calm], data, folds))
    (failed,) = [event for event in events if isinstance(event, Failed)]
    assert failed.run == 0
    assert failed.message.startswith("fold 1 of repeat 1: training must keep a finite loss")
    assert [(event.run, event.together) for event in events if isinstance(event, CrossValidated)] == [(1, 2)]


def test_a_class_of_one_group_is_learnt_in_the_end_but_not_while_it_is_held_out(data):
    labels = data.train.labels
    folds = torch.arange(len(labels)) % FOLDS
    folds[labels == 3] = 1
    end = ends([run(head={"classifier": {"kind": "ridge"}})], data, folds[None])[0]
    assert (end.answers.log_p[folds == 1, 3] == -torch.inf).all()
    assert end.answers.log_p[folds != 1].isfinite().all()
    assert end.finished.head.logits(data.train.columns).isfinite().all()


def test_what_cannot_be_cross_validated_is_refused(data, folds):
    with pytest.raises(ValueError, match=r"folds \[R, N\] number each of the 24 training rows"):
        list(cross_validate([run()], data, folds[:, 1:]))
    with pytest.raises(ValueError, match="two numbers or more"):
        list(cross_validate([run()], data, torch.zeros(1, 24, dtype=torch.int64)))
    with pytest.raises(ValueError, match="columns"):
        check_runs([run(columns=["cls"])], data)
