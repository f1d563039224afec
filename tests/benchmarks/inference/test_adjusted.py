"""Probabilities at another temperature and class prior, against hand-computed values and the heads themselves."""

from dataclasses import replace

import pytest
import torch

import frostbench
from frostbench.benchmarks.inference.adjusted import decisions, log_probabilities, logits_of
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec


@pytest.fixture(scope="module")
def heads():
    """Two heads trained on Gaussian classes of unequal size, and their vectors."""
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)).numpy()
    labels = [0] * 180 + [1] * 90 + [2] * 30
    x[180:270, 0] += 2
    x[270:, 1] += 2
    settings = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0}
    found = [frostbench.fit(x, labels, settings, preset="plain", seed=seed).head for seed in (0, 1)]
    return found, {name: torch.from_numpy(x) for name in found[0].columns}


def fixed(layers, counts=(80.0, 20.0, 0.0)):
    """Return a stand-in of a head with these training counts and layers."""
    implied = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    uniform = (implied > 0).double() / (implied > 0).sum()

    class Fixed:
        priors = type("Priors", (), {"implied": implied})
        layers = None

        def uniform_prior(self):
            return uniform

        def under(self, prior):
            return self

        def decide(self, log_p):
            return layers.decide(log_p)

    head = Fixed()
    head.layers = layers
    return head


def test_temperature_and_prior_by_hand():
    cold = Layers(PosthocSpec(calibration=Temperature()), numbers={"temperature": torch.tensor(2.0)})
    head, logits = fixed(cold), torch.tensor([[[1.0, 0.0, -torch.inf]]], dtype=torch.float64)
    p = lambda *how: log_probabilities(head, logits, *how).exp()[0].tolist()  # noqa: E731
    # e^0.5 / (1 + e^0.5) with the head's own temperature 2; times 2 it is e^0.25.
    assert p() == pytest.approx([0.622459, 0.377541, 0.0], abs=1e-6)
    assert p(2.0) == pytest.approx([0.562177, 0.437823, 0.0], abs=1e-6)
    # Under the equal prior, log 4 is taken off the gap of 1: (1 - 1.386294) / 2 is -0.193147, and
    # 1 / (1 + e^0.193147) is 0.451863.
    assert p(1.0, 1.0) == pytest.approx([0.451863, 0.548137, 0.0], abs=1e-6)


def test_cut_offs_decide_as_in_predict():
    logits = torch.tensor([[[0.5, 0.3, 0.2]]], dtype=torch.float64).log()
    cut = Layers(bias=-torch.tensor([0.6, 0.2, 0.3], dtype=torch.float64).log())
    assert decisions(fixed(cut, (1, 1, 1)), logits).tolist() == [1]
    assert decisions(fixed(Layers(), (1, 1, 1)), logits).tolist() == [0]


@pytest.mark.parametrize("is_ensemble", [False, True])
def test_probabilities_are_those_of_the_head(heads, is_ensemble):
    found, vectors = heads
    head = Ensemble(tuple(found)) if is_ensemble else found[0]
    logits = logits_of(head, vectors)
    assert logits.shape[0] == (2 if is_ensemble else 1)
    assert torch.equal(log_probabilities(head, logits), head.log_probabilities(vectors))
    uniform = head.log_probabilities(vectors, head.uniform_prior())
    assert torch.allclose(log_probabilities(head, logits, prior=1.0).exp().double(), uniform.exp().double(), atol=1e-6)
    assert torch.equal(decisions(head, logits), head.decide(head.log_probabilities(vectors)))
    assert torch.equal(decisions(head, logits, 1.0), head.under(head.uniform_prior()).decide(uniform))


def test_a_temperature_moves_no_decision(heads):
    found, vectors = heads
    logits = logits_of(found[0], vectors)
    flat, sharp = (log_probabilities(found[0], logits, t) for t in (4.0, 0.25))
    assert torch.equal(flat.argmax(1), sharp.argmax(1))
    assert (flat.amax(1) < sharp.amax(1)).all()


def test_an_ensemble_of_one_member_twice_is_that_member(heads):
    found, vectors = heads
    twice = Ensemble((found[0], replace(found[0])))
    both, one = logits_of(twice, vectors), logits_of(found[0], vectors)
    assert torch.allclose(log_probabilities(twice, both, 2.0, 0.5), log_probabilities(found[0], one, 2.0, 0.5).double())
