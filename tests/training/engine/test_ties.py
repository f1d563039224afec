"""Where a metric ties, the lower NLL decides: epochs of both stages, powers and strengths."""

import pytest
import torch
from catalogue import merged
from crossval_runs import run as crossval_run

from frostbench.training.crossval.out_of_fold import OutOfFold, choose_out_of_fold
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Epoch, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.metrics.classification import NOTHING, all_metrics, preference, preferred
from frostbench.training.run import RunSpec

BASE = {
    "train": {
        "schedule": {"epochs": 12, "min_steps": 0, "batch_size": 16},
        "optim": {"kind": "adamw", "lr": 0.003},
        "early_stop": {"metric": "accuracy", "patience": 3},
    }
}


@pytest.fixture(scope="module")
def apart():
    """Three classes so far apart that every epoch is right about all rows."""
    generator = torch.Generator().manual_seed(1)
    centres = 4 * torch.eye(3, 6)

    def part():
        labels = torch.arange(3).repeat_interleave(20)
        return Part({"x": centres[labels] + 0.1 * torch.randn(60, 6, generator=generator)}, labels)

    return Data(part(), part(), part(), ("ash", "beech", "cedar"))


def events_of(data, *trees):
    return list(fit([RunSpec.model_validate(merged(BASE, *trees))], data))


@pytest.mark.parametrize("second", [{"kind": "none"}, {"kind": "crt", "lr": 0.1}, {"kind": "lws", "epochs": 10}])
def test_the_epoch_of_lowest_nll_is_kept_among_those_that_are_right_about_all(apart, second):
    events = events_of(apart, {"second": second})
    end, course = events[-1], [event for event in events if isinstance(event, Epoch)]
    stage = course if second["kind"] == "none" else course[-10:]
    equals = [event for event in stage if event.metrics["accuracy"] == 1.0]
    assert len(equals) > 3
    assert end.epoch == min(equals, key=lambda event: round(event.metrics["nll"], 6)).epoch > equals[0].epoch


def test_patience_does_not_run_out_while_the_nll_of_equals_still_falls(apart):
    assert events_of(apart)[-1].reason == "all_epochs"


@pytest.mark.parametrize(
    "tree",
    [{"second": {"kind": "tau_norm"}}, {"posthoc": {"adjustment": {"rule": "tuned"}}}],
    ids=["tau_norm", "adjustment"],
)
def test_powers_and_strengths_that_tie_are_decided_by_nll(apart, tree):
    skewed = Data(
        Part({"x": apart.train.columns["x"][10:]}, apart.train.labels[10:]),
        apart.select,
        apart.calibrate,
        apart.class_names,
    )
    (end,) = [event for event in events_of(skewed, tree) if isinstance(event, Finished)]

    def judged(one):
        log_p = one.head.logits(apart.select.columns).log_softmax(1)
        found = all_metrics(log_p, apart.select.labels, one.head.counts)
        return found["accuracy"], -found["nll"]

    is_power = "second" in tree
    values = [k / 10 for k in range(21)] if is_power else [k / 20 for k in range(31)]
    trees = [
        {"second": {"tau": v}} if is_power else {"posthoc": {"adjustment": {"rule": "fixed", "tau": v}}} for v in values
    ]
    given = [judged(events_of(skewed, tree, each)[-1]) for each in trees]
    equals = [each for each in given if each[0] == max(given)[0]]
    assert judged(end) == pytest.approx(max(given))
    assert max(given)[1] > equals[0][1] + 1e-3


def test_on_held_out_rows_the_strength_of_lowest_nll_is_taken():
    labels, folds = torch.tensor([0, 0, 0, 1, 0, 1]), torch.tensor([0, 1, 0, 1, 0, 1])
    logits = torch.where(labels[:, None] == torch.arange(2), 4.0, 0.0) + torch.tensor([0.0, -2.0])
    prior = torch.tensor([0.9, 0.1]).log().expand(6, -1)
    held = OutOfFold(logits[None], prior, labels, folds, torch.bincount(labels), ())
    asked = crossval_run(posthoc={"adjustment": {"rule": "tuned"}}, train={"early_stop": {"metric": "accuracy"}})

    def nll(tau):
        return torch.nn.functional.cross_entropy(logits - tau * prior, labels).item()

    assert choose_out_of_fold(asked, held).adjustment_strength == min((k / 20 for k in range(31)), key=nll) > 0


def test_what_decides_is_the_metric_then_the_nll_and_rounding_is_no_difference():
    assert preferred(0.5, 0.2) > preferred(0.5, 0.3) > preferred(0.4, 0.1) > preferred(0.4, None) > NOTHING
    assert preferred(0.1 + 0.2, 0.5) > preferred(0.3, 0.6)
    assert preferred(0.3, 0.5) > preferred(0.1 + 0.2, 0.6)
    assert preferred(0.3, 0.5) == preferred(0.3, 0.5 - 1e-8)
    assert preference({"nll": 0.2}, "nll") > preference({"nll": 0.3}, "nll")
