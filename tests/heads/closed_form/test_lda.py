import math

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.covariance import oas as sklearn_oas
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from frostbench.heads.closed_form.eigen import eigenbasis
from frostbench.heads.closed_form.lda import Lda, ledoit_wolf, oas
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.stepped.cosine import class_means


def equal_rows(x, labels, classes):
    return Rows(x, labels, torch.ones(len(x)).double(), classes)


def digits(rows=400):
    x, y = load_digits(return_X_y=True)
    return equal_rows(torch.tensor(x[:rows] / 16), torch.tensor(y[:rows]), 10)


def few(rows=40, dim=60):
    x = torch.randn(rows, dim, generator=torch.Generator().manual_seed(0)).double()
    return equal_rows(x + torch.arange(rows)[:, None] % 4, torch.arange(rows) % 4, 4)


def residual_of(rows):
    means, _ = class_means(rows.x, rows.labels, rows.weight, rows.classes)
    return rows.x - means[rows.labels]


def away_from_first(logits):
    return (logits - logits[..., :1]).detach().double().numpy()


def test_vector_of_streaming_lda():
    # Four rows per class with the means and the covariance [[.5, .1], [.1, .4]] of the vector.
    means = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
    root = math.sqrt(2) * torch.linalg.cholesky(torch.tensor([[0.5, 0.1], [0.1, 0.4]]).double()).T
    x = (means[:, None] + torch.cat([root, -root])).reshape(12, 2)
    rows = equal_rows(x, torch.arange(3).repeat_interleave(4), 3)
    layer = Lda(shrinkage="fixed", alpha=1e-4, target="identity").fit(rows)
    away = away_from_first(layer(torch.tensor([[0.6, 0.3]])))
    assert away[0] == pytest.approx([0, 0.0526645331, -0.8418958893], abs=2e-6)
    expected = [[0, 0], [2.1050028092, -0.5261191594], [-0.5261191594, 2.6311219686]]
    assert (layer.weight - layer.weight[0]).detach().numpy() == pytest.approx(np.array(expected), abs=2e-6)


def test_the_training_prior_is_added_as_logarithms():
    rows = Rows(torch.randn(6, 2).double(), torch.tensor([0, 0, 0, 1, 1, 2]), torch.ones(6).double(), 3)
    plain = Lda().fit(rows)
    weighted = Lda(prior="train").fit(rows)
    shift = (weighted.bias - plain.bias).detach().numpy()
    assert shift == pytest.approx(np.log([3 / 6, 2 / 6, 1 / 6]), abs=1e-5)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("rows", [digits(), few()], ids=["tall", "wide"])
@pytest.mark.parametrize("prior", ["uniform", "train"])
def test_a_fixed_share_equals_scikit_learn(rows, alpha, prior):
    x, y = rows.x.numpy(), rows.labels.numpy()
    share = np.bincount(y) / len(y)
    # Scikit-learn pools the classes' covariances by its priors, so its uniform ones would change more than the bias.
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=alpha).fit(x, y)
    expected = torch.tensor(theirs.decision_function(x))
    if prior == "uniform":
        expected = expected - torch.tensor(np.log(share))
    layer = Lda(shrinkage="fixed", alpha=alpha, prior=prior).fit(rows).double()
    assert away_from_first(layer(rows.x)) == pytest.approx(away_from_first(expected), abs=1e-3, rel=1e-5)


@pytest.mark.parametrize("rows", [digits(), few()], ids=["tall", "wide"])
def test_the_estimators_equal_scikit_learn(rows):
    residual = residual_of(rows)
    basis = eigenbasis(residual, rows.weight)
    share = rows.weight / rows.weight.sum()
    theirs = sklearn_oas(residual.numpy(), assume_centered=True)[1]
    assert oas(basis.values, residual, share).item() == pytest.approx(theirs, rel=1e-9)
    theirs = ledoit_wolf_shrinkage(residual.numpy(), assume_centered=True)
    assert ledoit_wolf(basis.values, residual, share).item() == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("name", "estimator"), [("oas", oas), ("ledoit_wolf", ledoit_wolf)])
def test_an_estimated_share_is_the_share_that_is_used(name, estimator):
    rows = few()
    residual = residual_of(rows)
    alpha = estimator(eigenbasis(residual, rows.weight).values, residual, rows.weight / rows.weight.sum()).item()
    assert 0.01 < alpha < 1
    found, given = Lda(shrinkage=name).fit(rows), Lda(shrinkage="fixed", alpha=alpha).fit(rows)
    assert torch.allclose(found.weight, given.weight, atol=1e-5)


def test_weight_two_is_the_row_twice():
    rows = digits(200)
    twice = torch.cat([torch.arange(200), torch.arange(50)])
    heavy = torch.cat([torch.full((50,), 2.0), torch.ones(150)]).double()
    spec = Lda(shrinkage="fixed", alpha=0.1, prior="train")
    one = spec.fit(Rows(rows.x, rows.labels, heavy / heavy.mean(), 10))
    other = spec.fit(equal_rows(rows.x[twice], rows.labels[twice], 10))
    assert torch.allclose(one.weight, other.weight, atol=1e-4)
    assert torch.allclose(one.bias, other.bias, atol=1e-4)


@pytest.mark.parametrize("shrinkage", ["oas", "ledoit_wolf", "fixed"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_one_sample_classes_constant_features_and_absent_classes(shrinkage, alpha):
    x = torch.tensor([[100.0, 0.0, 1.0, 0, 0], [100, 1, 0, 0, 0], [100, 0.9, 0.1, 0, 0], [100, 0.5, 3, 0, 0]])
    rows = equal_rows(x, torch.tensor([0, 2, 2, 3]), 5)
    logits = Lda(shrinkage=shrinkage, alpha=alpha, prior="train").fit(rows)(x)
    assert torch.isfinite(logits).all()
    assert logits[:, [0, 2, 3]].argmax(1)[:3].tolist() == [0, 1, 1]


@pytest.mark.parametrize("shrinkage", ["oas", "ledoit_wolf", "fixed"])
def test_without_spread_within_the_classes_the_nearest_mean_wins(shrinkage):
    x = torch.tensor([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    layer = Lda(shrinkage=shrinkage).fit(equal_rows(x, torch.arange(3), 3))
    query = torch.tensor([[1.0, 0.7, 1.0]])
    distance = (query - x).square().sum(1) / 2
    assert away_from_first(layer(query))[0] == pytest.approx(away_from_first(-distance), abs=1e-5)


def test_the_prior_in_the_logits_and_a_blank():
    prior = torch.tensor([0.7, 0.2, 0.1]).log()
    assert torch.equal(Lda(prior="train").carried(prior), prior)
    assert Lda().carried(prior).exp().tolist() == pytest.approx([1 / 3] * 3)
    state = Lda().fit(digits()).state_dict()
    blank = Lda().blank(64, 10, {name: value.shape for name, value in state.items()})
    assert blank.load_state_dict(state).missing_keys == []


def test_no_number_is_swept_since_each_head_is_fitted_by_itself():
    assert not any(field.json_schema_extra for field in Lda.model_fields.values())
