import math

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from frostbench.heads.posthoc.spec import PosthocSpec, at_bound, fit_temperature


def overconfident(rows=600, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator).squeeze(1)
    return 2.5 * true, labels


def test_it_recovers_the_true_temperature():
    logits, labels = overconfident(rows=40_000)
    assert fit_temperature(logits, labels) == pytest.approx(2.5, rel=0.03)


def test_the_likelihood_is_lowest_there():
    logits, labels = overconfident()
    best = fit_temperature(logits, labels)
    losses = [cross_entropy(logits / t, labels).item() for t in (best * 0.999, best, best * 1.001)]
    assert losses[1] == min(losses)


def test_it_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 5))
    y = (x @ rng.normal(size=(5, 3)) + rng.gumbel(size=(900, 3))).argmax(1)
    model = LogisticRegression(C=1e6, max_iter=2000).fit(x[:40], y[:40])
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature", ensemble=False).fit(x[40:], y[40:])
    logits = torch.tensor(model.decision_function(x[40:]))
    ours = (logits / fit_temperature(logits, torch.tensor(y[40:]))).softmax(1)
    assert ours.numpy() == pytest.approx(theirs.predict_proba(x[40:]), abs=1e-3)


def test_weights_act_like_repeated_rows():
    logits, labels = overconfident(rows=90)
    times = torch.arange(90) % 3
    repeated = fit_temperature(logits.repeat_interleave(times, 0), labels.repeat_interleave(times))
    assert fit_temperature(logits, labels, times) == pytest.approx(repeated, rel=1e-6)


def test_absent_classes_are_allowed_as_columns_and_rejected_as_labels():
    logits, labels = overconfident()
    wider = torch.cat([logits, torch.full((len(logits), 1), -torch.inf, dtype=torch.float64)], 1)
    assert fit_temperature(wider, labels) == pytest.approx(fit_temperature(logits, labels), rel=1e-9)
    with pytest.raises(ValueError, match="must belong to a trained class"):
        fit_temperature(wider, torch.full_like(labels, 4))


def test_zero_rows_are_rejected():
    with pytest.raises(ValueError, match="Calibration rows are required for a temperature, got none"):
        fit_temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))


def test_a_constant_likelihood_gives_temperature_one():
    assert fit_temperature(torch.zeros(5, 3), torch.zeros(5, dtype=torch.long)) == 1
    one_class = torch.cat([torch.randn(5, 1), torch.full((5, 2), -torch.inf)], 1)
    assert fit_temperature(one_class, torch.zeros(5, dtype=torch.long)) == 1


def test_rows_without_an_optimum_end_at_a_bound():
    right = torch.eye(3)
    assert at_bound(fit_temperature(right, torch.arange(3)))
    assert at_bound(fit_temperature(right, torch.tensor([1, 2, 0])))
    assert not at_bound(fit_temperature(*overconfident()))


def test_nan_is_rejected():
    with pytest.raises(ValueError, match="must be finite, got NaN"):
        fit_temperature(torch.tensor([[float("nan"), 0.0]]), torch.tensor([0]))


@pytest.mark.parametrize(
    ("row", "labels", "temperature", "nll", "before"),
    [
        ([4.0, 0.0], [0] * 8 + [1] * 2, 4 / math.log(4), 0.5004024235381879, 0.8181499279178095),
        ([4.0, 0.0, 0.0], [0] * 8 + [1, 2], 4 / math.log(8), 0.6390318596501766, 0.8359762997481932),
    ],
)
def test_the_temperature_in_closed_form(row, labels, temperature, nll, before):
    """Ten equal rows, whose class shares the temperature must reproduce: 8 : 2, and 8 : 1 : 1."""
    logits, labels = torch.tensor([row] * 10, dtype=torch.float64), torch.tensor(labels)
    found = fit_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=1e-7)
    assert cross_entropy(logits / found, labels).item() == pytest.approx(nll, abs=1e-12)
    assert cross_entropy(logits, labels).item() == pytest.approx(before, abs=1e-12)


def test_a_prior_for_deployment_names_every_trained_class():
    spec = PosthocSpec(deploy_prior={"ash": 3, "beech": 1, "cedar": 5})
    present = torch.tensor([True, True, False])
    assert spec.deployed(("ash", "beech", "cedar"), present).tolist() == [0.75, 0.25, 0]
    assert PosthocSpec().deployed(("ash", "beech", "cedar"), present) is None
    with pytest.raises(ValueError, match=r"\['elm'\] are missing and \['cedar'\] are not classes"):
        spec.deployed(("ash", "beech", "elm"), torch.ones(3, dtype=torch.bool))
