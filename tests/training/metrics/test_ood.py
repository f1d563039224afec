import numpy as np
import pytest
import torch

from frostbench.training.metrics.ood import SCORES, auroc, resampled_auroc, scores

KNOWN = torch.tensor([[3, 0, 0], [2.5, 0.5, 0], [1, 0.8, 0.2]])
OTHER = torch.tensor([[1.5, 1.4, 1.3], [0.6, 0.1, 0]])


def test_the_worked_example_has_its_values():
    inside, outside = scores(KNOWN), scores(OTHER)
    found = {name: auroc(inside[name], outside[name]) for name in SCORES}
    assert found == pytest.approx({"msp": 5 / 6, "neg_entropy": 1.0, "max_logit": 5 / 6, "energy": 5 / 6})


def test_scores_of_an_untrained_class_are_numbers():
    found = scores(torch.tensor([[2.0, 1.0, -torch.inf]]))
    p = torch.tensor([2.0, 1.0], dtype=torch.float64).softmax(0)
    assert found["neg_entropy"][0] == pytest.approx(float((p * p.log()).sum()))
    assert found["energy"][0] == pytest.approx(np.log(np.exp(2) + np.exp(1)))
    assert found["max_logit"][0] == 2
    assert found["msp"][0] == pytest.approx(float(p[0]))


def test_a_temperature_moves_probabilities_and_leaves_the_order_of_logits():
    generator = torch.Generator().manual_seed(0)
    own, others = 3 * torch.randn(80, 6, generator=generator), 2 * torch.randn(60, 6, generator=generator)
    one, other = scores(own), scores(others)
    hot, hot_other = scores(own / 4), scores(others / 4)
    assert auroc(one["max_logit"], other["max_logit"]) == auroc(hot["max_logit"], hot_other["max_logit"])
    assert auroc(one["msp"], other["msp"]) != auroc(hot["msp"], hot_other["msp"])


def test_ties_count_half():
    assert auroc(np.array([1.0, 2.0]), np.array([1.0, 1.0])) == pytest.approx(0.75)
    assert auroc(np.ones(3), np.ones(4)) == pytest.approx(0.5)


def test_weights_are_copies():
    rng = np.random.default_rng(0)
    own, other = rng.normal(1, 1, 30).round(1), rng.normal(0, 1, 20).round(1)
    counts, more = rng.integers(0, 3, (30, 4)), rng.integers(0, 3, (20, 4))
    found = resampled_auroc(own, other, counts.astype(float), more.astype(float))
    wanted = [auroc(np.repeat(own, counts[:, i]), np.repeat(other, more[:, i])) for i in range(4)]
    assert found == pytest.approx(wanted, abs=1e-12)


def test_an_empty_side_is_refused():
    with pytest.raises(ValueError, match="rows of known classes and other rows, got 3 and 0"):
        auroc(np.zeros(3), np.zeros(0))
    with pytest.raises(ValueError, match="got 0 and 2"):
        resampled_auroc(np.zeros(0), np.zeros(2), np.zeros((0, 1)), np.zeros((2, 1)))
