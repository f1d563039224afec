"""Logit adjustment by a prior that a person gives."""

import math

import pytest
import torch

from frostbench.training.engine.fit import fit
from frostbench.training.losses.class_statistics import class_statistics_of
from frostbench.training.losses.class_weights import NoWeight
from frostbench.training.losses.logit_adjustment import LogitAdjustment
from frostbench.training.run import RunSpec

NAMES = ("ash", "beech", "cedar", "elm")
SCHEDULE = {"epochs": 2, "min_steps": 0}


def run(prior, given=None, tau=1.0):
    adjustment = {"tau": tau, "prior": prior} | ({"given": given} if given else {})
    return RunSpec.model_validate({"train": {"loss": {"logit_adjustment": adjustment}, "schedule": SCHEDULE}})


def ended(spec, data):
    return list(fit([spec], data))[-1].head


def test_shares_are_normalised_over_the_trained_classes():
    spec = LogitAdjustment(tau=1, prior="given", given={"ash": 2, "beech": 5, "cedar": 1, "elm": 1})
    found = spec.given_log_prior(NAMES, torch.tensor([0, 2, 3]))
    assert found.tolist() == pytest.approx([math.log(0.5), math.log(0.25), math.log(0.25)])


def test_the_class_shares_given_are_the_raw_prior(long_tail):
    given = dict(zip(NAMES, [120 / 180, 40 / 180, 15 / 180, 5 / 180], strict=True))
    raw, own = ended(run("raw"), long_tail), ended(run("given", given), long_tail)
    torch.testing.assert_close(own.head.classifier.weight, raw.head.classifier.weight)
    torch.testing.assert_close(own.priors.implied, raw.priors.implied)
    other = ended(run("given", dict.fromkeys(NAMES, 1.0)), long_tail)
    assert (other.head.classifier.weight - raw.head.classifier.weight).abs().max() > 1e-3


def test_the_logits_carry_what_the_loss_saw_over_what_was_given(long_tail):
    head = ended(run("given", {"ash": 1, "beech": 1, "cedar": 2, "elm": 4}, tau=0.5), long_tail)
    carried = [120 / 1, 40 / 1, 15 / 2**0.5, 5 / 2]
    assert head.priors.implied.tolist() == pytest.approx([each / sum(carried) for each in carried])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"\['ash', 'beech', 'cedar', 'elm'\] are missing"),
        ({"ash": 1, "beech": 1, "cedar": 1}, r"\['elm'\] are missing"),
        (dict.fromkeys((*NAMES, "yew"), 1), r"\['yew'\] are not classes of this table"),
    ],
)
def test_shares_are_those_of_the_classes(long_tail, given, told):
    with pytest.raises(ValueError, match=told):
        list(fit([run("given", given)], long_tail))


def test_facts_without_it_say_so():
    statistics = class_statistics_of(torch.tensor([0, 1]), 2, NoWeight())
    with pytest.raises(ValueError, match="prior=given needs a given prior, but these statistics have none"):
        statistics.log_prior("given")
